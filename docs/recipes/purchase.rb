# A shop's back end reports a purchase, when it is paid, with Ruby 3 and no gem. The address and
# user agent come from the visitor's request to the shop: they find the visit that the browser
# began, and are not stored.
#
#   ANALYTICS_URL=https://stats.example.com SERVER_SECRET=svcs_… ruby purchase.rb '{"id": "T-1", …}'
require "json"
require "net/http"

# Returns "recorded" or "ignored". The same transaction_id counts once, so that a purchase can be sent again.
def purchase(order)
  body = {
    event: "purchase", ip: order["ip"], user_agent: order["userAgent"], path: "/checkout/thanks",
    meta: { transaction_id: order["id"], value: order["total"], currency: order["currency"], items: order["items"] }
  }
  address = URI("#{ENV.fetch('ANALYTICS_URL')}/server.php")
  headers = { "Authorization" => "Bearer #{ENV.fetch('SERVER_SECRET')}", "Content-Type" => "application/json" }
  response = Net::HTTP.post(address, JSON.generate(body), headers)
  response.value # raises unless the answer is a success
  JSON.parse(response.body)["status"]
end

puts purchase(JSON.parse(ARGV[0]))
