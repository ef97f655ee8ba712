"""Verifies the token of a form, with Python 3 and no package.

CAPTCHA_URL=https://captcha.example.com CAPTCHA_SECRET=svcc_… python3 siteverify.py TOKEN
"""

import json
import os
import sys
import urllib.parse
import urllib.request


def verify(token):
    """Returns whether the token is genuine and unused, and else the codes of the errors."""
    form = urllib.parse.urlencode({"secret": os.environ["CAPTCHA_SECRET"], "response": token})
    # An outage raises: refuse, and ask to send again later.
    with urllib.request.urlopen(os.environ["CAPTCHA_URL"] + "/siteverify", form.encode(), timeout=10) as response:
        answer = json.load(response)
    return answer["success"], answer.get("error-codes", [])


if __name__ == "__main__":
    ok, codes = verify(sys.argv[1])
    print(str(ok).lower(), *codes)
