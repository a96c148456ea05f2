"""Values that their place in a trajectory makes secrets, and what looks alike and is none."""

import json

import pytest

from trajmill.quality.scrub import scrub_text
from trajmill.quality.scrubbing.sensitive_values import sensitive_values
from trajmill.schemas.action import Action
from trajmill.schemas.observation import Observation
from trajmill.schemas.trajectory import Step, Trajectory

FIELD = '#1 window "A" [0,0][90,90]\n  #2 textbox "Key" value="{}" focused password id=k [0,0][40,40]'


def found(text="x", arguments=None, *, before=None, after=None, name="x"):
    shown, seen = (None if text is None else Observation(text) for text in (before, after))
    return sensitive_values(Trajectory("t", "web", [Step(Action(name, text, arguments), shown, seen, 0, 0)]))


def called(tool, before=None, **arguments):
    text = json.dumps({"name": tool, "arguments": arguments})
    return found(text, json.dumps(arguments), before=before, name=tool)


@pytest.mark.parametrize(
    "values",
    [
        found("pw = driver.find_element(By.ID, 'passwd')\npw.send_keys('sunflower')"),
        found("driver.find_element(By.NAME, \"password\").send_keys('sunflower')"),
        found("page.fill('#password', 'sunflower')"),
        found("pyautogui.click(10, 10)\npyautogui.write('sunflower', interval=0.1)", before=FIELD.format("")),
        called("type", FIELD.format(""), text="sunflower"),
        called("fill", FIELD.format(""), element="#2", text="sunflower"),
        called("browser_type", '- textbox "Password" [ref=e12]', ref="e12", text="sunflower"),
        called("http", headers={"Authorization": "Bearer sunflower", "Accept": "text/html"}),
        called("http", body='{"a": "user=ada&session%5Bpassword%5D=sunflower"}'),
        called("http", url="https://a.example/?q=1&token=sunflower"),
        found(after=FIELD.format("sunflower")),
        called("run", args=["-u", "ada", "--password", "sunflower"]),
        called("set_field", field_name="New password", new_value="sunflower"),
        called("http", body="<a:Password Type='x'>sunflower</a:Password>"),
        called("http", body='{"variables": {"passPhrase": "sunflower"}}'),
        found(after='{"Parameter": {"Name": "/prod/db/password", "Value": "sunflower"}}'),
        found('{"name": "run", "arguments": {"command": "pass show mail/ada"}}', after="sunflower\nuser: ada\n"),
        found("echo $DB_PASSWORD\n", after="$ echo $DB_PASSWORD\r\nsunflower\r\nada@box:~$ "),
        found("vault kv get -field=password secret/db", after="sunflower"),
        found("document.querySelector('#password').value", after='### Result\n"sunflower"'),
        found(name="get_secret", after="sunflower"),
        found(after='#1 textbox "Password" value="sunflower" [0,0][40,40]'),
        called("type", '#1 textbox "Password" [0,0][40,40]', element="#1", text="sunflower"),
        found(after='<p>a</p><input value="sunflower" type="password">'),
        found(after="<p>a</p><input type=password value=sunflower>"),
        found(after='{"user": {"password": "sunflower"}, "token": "ethereum"}'),
        found("sunflower\n", before="$ login\nToken (will be hidden): "),
        found("sunflower\n", before="$ login\nPaste it here (input is hidden): "),
        found(arguments='{"commands": [{"keystrokes": "sunflower\\n"}]}', before="Enter PIN: \x1b[0m"),
        found('[{"keystrokes": "sunflower\\n"}]', before="[sudo] password for ada: "),
    ],
)
def test_a_place_tells_a_secret_of_ordinary_letters(values):
    assert values == ("sunflower",)


@pytest.mark.parametrize(
    "word", ["Password", "password", "Passphrase", "passphrase", "passcode", "PASSWORD", "PIN", "CVV", "CVC"]
)
def test_each_word_for_a_secret_tells_a_field_of_one(word):
    assert found(after=f'#1 textbox "Your {word}" value="sunflower" [0,0][40,40]') == ("sunflower",)


@pytest.mark.parametrize(
    "word",
    [
        "password",
        "Passwd",
        "PASSPHRASE",
        "pass phrase",
        "passcode",
        "PIN",
        "token",
        "secret",
        "API key",
        "access key",
        "private key",
        "verification code",
        "one-time code",
        "OTP",
    ],
)
def test_each_word_for_a_secret_tells_a_prompt_for_one(word):
    assert found("sunflower\n", before=f"$ login\nEnter {word}: ") == ("sunflower",)


@pytest.mark.parametrize(
    "screen",
    [
        "$ ssh db\nroot@db's password: ",
        "Enter passphrase for key '/x/id_rsa': ",
        "login: root\nPassword:",
        "New password: \x1b[0m",
        "Retype new password:\n",
        "Enter password (hidden): ",
        "Password for 'https://app@git.corp.io': ",
    ],
)
def test_what_is_typed_where_a_screen_ends_in_a_prompt_is_a_secret(screen):
    assert found("sunflower\n", before=screen) == ("sunflower",)
    assert found("sunflower\n", before=f"{screen}\r\nSorry, try again.\r\n$ ") == ()


@pytest.mark.parametrize(
    "values",
    [
        called("press", key="Enter"),
        called("ask", max_tokens="many thousand", seed="winter", session_id="python-shell"),
        called("type", FIELD.format(""), element="#1", text="sunflower"),
        called("sign_in", password="abc"),
        called("sign_in", password="••••••"),
        called("sign_in", password="${PASSWORD}"),
        called("sign_in", password="<password>"),
        found(after=FIELD.format("••••••••")),
        found(after='#1 textbox "Notes" value="the password of all" [0,0][40,40]'),
        found(after='#1 checkbox "Show password" value="sunflower" [0,0][40,40]'),
        found(after='<input type="password" value="••••••••"><input type="text" value="sunflower">'),
        found(after='{"properties": {"password": {"type": "string"}}, "password": "required"}'),
        found("echo $HOME\n", after="$ echo $HOME\r\nsunflower\r\n$ "),
        found("echo $DB_PASSWORD\n", after="$ echo $DB_PASSWORD\r\n\r\nada@box:~$ "),
        found("pass show mail/ada", after="Error: mail/ada is not in the password store."),
        found(name="count_tokens", after="sunflower"),
        found("ls -la | wc\n", before="Password: "),
        found("sunflower\n", before="The password stands in the file.\n$ "),
    ],
)
def test_what_only_looks_like_such_a_place_gives_nothing(values):
    assert values == ()


def test_a_value_is_hidden_in_every_writing_and_a_short_one_in_no_word():
    text = 'sunflower "sunflower" %73unflower c3VuZmxvd2Vy YWRhOnN1bmZsb3dlcg== YTpzdW5mbG93ZXI6Yg== rose rosebud'
    hidden = scrub_text(text, sensitive=["sunflower", "rose"])
    assert len(hidden) == len(text)
    assert all(piece not in hidden for piece in ("sunflower", "unflower", "c3VuZmxvd2Vy", "N1bmZsb3dl", "zdW5mbG93ZX"))
    assert hidden.split()[-1] == "rosebud"
    assert hidden.split()[-2] != "rose"
