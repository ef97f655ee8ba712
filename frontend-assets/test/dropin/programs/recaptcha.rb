# A page that uses Ruby's recaptcha. Without an argument it prints the tags of a form; else it verifies the argument
# as the value of the field g-recaptcha-response, and prints true or false.
require "recaptcha"

Recaptcha.configure do |config|
  config.site_key = ENV.fetch("SITEKEY")
  config.secret_key = ENV.fetch("SECRET")
  config.api_server_url = ENV.fetch("CAPTCHA") + "/recaptcha/api.js"
  config.verify_url = ENV.fetch("VERIFY") + "/recaptcha/api/siteverify"
end

Page = Struct.new(:request, :params) do
  include Recaptcha::ClientHelper
  include Recaptcha::Verify
end

page = Page.new(Struct.new(:remote_ip, :host).new("203.0.113.1", "www.shop.test"), { "g-recaptcha-response" => ARGV[0].to_s })
if ENV["INVISIBLE"]
  puts page.invisible_recaptcha_tags(text: "Send", id: "send", callback: "onToken")
elsif ARGV.empty?
  puts page.recaptcha_tags
else
  puts page.verify_recaptcha
end
