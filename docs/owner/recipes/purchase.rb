# A shop's back end reports a purchase, when it is paid, with Ruby 3 and no gem. The address and
# user agent come from the visitor's request to the shop: they find the visit that the browser
# began, and are not stored.
#
#   ANALYTICS_URL=https://stats.example.com SERVER_SECRET=svcs_… ruby purchase.rb '{"id": "T-1", …}'
require "json"
require "net/http"

# Returns "recorded", "ignored" or "refused", and raises if the purchase should be sent again later. The same
# transaction_id counts once, so that a purchase can be sent again.
def purchase(order)
  body = {
    event: "purchase", ip: order["ip"], user_agent: order["userAgent"], path: "/checkout/thanks",
    meta: {
      transaction_id: order["id"], value: Float(order["total"]), # many shops have texts such as "19.90"
      currency: order["currency"], items: order["items"]
    }
  }
  address = URI("#{ENV.fetch('ANALYTICS_URL')}/server.php")
  headers = { "Authorization" => "Bearer #{ENV.fetch('SERVER_SECRET')}", "Content-Type" => "application/json" }
  response = Net::HTTP.post(address, JSON.generate(body), headers)
  status = response.code.to_i
  raise "send it again later: #{status} #{response.body}" if status == 429 || status >= 500

  # Any other refusal is final. The answer may name the field.
  if status >= 300
    warn "purchase #{order['id']} is refused: #{status} #{response.body}"
    return "refused"
  end
  JSON.parse(response.body)["status"]
end

puts purchase(JSON.parse(ARGV[0]))
