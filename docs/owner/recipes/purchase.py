"""A shop's back end reports a purchase, when it is paid, with Python 3 and no package.

The address and user agent are those of the visitor's request to the shop: they find the visit that the browser began, and are not
stored.

ANALYTICS_URL=https://stats.example.com SERVER_SECRET=svcs_… python3 purchase.py '{"id": "T-1", …}'
"""

import json
import os
import sys
import urllib.error
import urllib.request


def purchase(order):
    """Returns "recorded", "ignored" or "refused", and raises an OSError if the purchase should be sent again later.

    The same transaction_id counts once, so that a purchase can be sent again.
    """
    body = {
        "event": "purchase",
        "ip": order["ip"],
        "user_agent": order["userAgent"],
        "path": "/checkout/thanks",
        "meta": {
            "transaction_id": order["id"],
            "value": float(order["total"]),  # many shops have texts such as "19.90"
            "currency": order["currency"],
            "items": order["items"],
        },
    }
    request = urllib.request.Request(
        os.environ["ANALYTICS_URL"] + "/server.php",
        json.dumps(body).encode(),
        {"Authorization": "Bearer " + os.environ["SERVER_SECRET"], "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)["status"]
    except urllib.error.HTTPError as error:
        if error.code == 429 or error.code >= 500:
            raise
        # Any other refusal is final. The answer may name the field.
        print(f"purchase {order['id']} is refused: {error.code} {error.read().decode()}", file=sys.stderr)
        return "refused"


if __name__ == "__main__":
    print(purchase(json.loads(sys.argv[1])))
