# Verifies the token of a form, with Ruby 3 and no gem.
#
#   CAPTCHA_URL=https://captcha.example.com CAPTCHA_SECRET=svcc_… ruby siteverify.rb TOKEN
require "json"
require "net/http"

# Returns whether the token is genuine and unused, and else the codes of the errors.
def verify(token)
  address = URI("#{ENV.fetch('CAPTCHA_URL')}/siteverify")
  request = Net::HTTP::Post.new(address)
  request.set_form_data(secret: ENV.fetch("CAPTCHA_SECRET"), response: token)

  # An outage raises: refuse, and ask to send again later.
  response = Net::HTTP.start(address.host, address.port, use_ssl: address.scheme == "https", read_timeout: 10) do |http|
    http.request(request)
  end
  answer = JSON.parse(response.body)
  [answer["success"], answer.fetch("error-codes", [])]
end

ok, codes = verify(ARGV[0])
puts [ok, *codes].join(" ")
