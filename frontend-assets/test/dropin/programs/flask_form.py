# A page that uses Flask-WTF. Without an argument it prints the field of a form; else it validates a form with the
# argument as the value of the field g-recaptcha-response, and prints true or false.
import os
import sys

from flask import Flask
from flask_wtf import FlaskForm, RecaptchaField

app = Flask(__name__)
app.config.update(
    SECRET_KEY="a secret for tests",
    RECAPTCHA_PUBLIC_KEY=os.environ["SITEKEY"],
    RECAPTCHA_PRIVATE_KEY=os.environ["SECRET"],
    RECAPTCHA_SCRIPT=os.environ["CAPTCHA"] + "/recaptcha/api.js",
    RECAPTCHA_VERIFY_SERVER=os.environ["VERIFY"] + "/recaptcha/api/siteverify",
)


class Contact(FlaskForm):
    class Meta:
        csrf = False

    recaptcha = RecaptchaField()


token = sys.argv[1] if len(sys.argv) > 1 else None
with app.test_request_context(method="GET" if token is None else "POST", data={"g-recaptcha-response": token or ""}):
    form = Contact()
    print(form.recaptcha() if token is None else str(form.validate()).lower())
