"""Small web sites of our own, on loopback, for recording: shops, task lists, clinics, libraries, manuals.

All state is in the `Site` object, so that every recording of a task begins alike; each task has a site of its own, with
other goods, books, people and news (`web_words`). Names, numbers and addresses are made up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from samples.makers.web_words import Words

ITEMS = {
    "assam": ("Assam black tea", "tea", 7.5, "Malty and strong, from the second flush."),
    "sencha": ("Sencha green tea", "tea", 9.0, "Steamed leaves, grassy and light."),
    "rooibos": ("Rooibos", "tea", 5.2, "Caffeine free, from the Cederberg."),
    "kettle": ("Copper kettle", "kitchen", 48.0, "Holds one and a half litres."),
    "teapot": ("Clay teapot", "kitchen", 32.0, "Unglazed, for a single kind of tea."),
    "strainer": ("Steel strainer", "kitchen", 6.4, "Fine mesh, folds flat."),
    "lamp": ("Reading lamp", "home", 27.9, "Warm light, dimmable."),
    "blanket": ("Wool blanket", "home", 64.0, "Undyed, 140 by 200 cm."),
}
BOOKS = {
    "tides": ("A Field Guide to Tides", "Ilse Marrow", 2011, "in"),
    "rivers": ("Rivers Underground", "Tobias Klee", 1998, "out"),
    "bread": ("The Patient Loaf", "Anouk Vries", 2016, "in"),
    "rye": ("Rye and Other Grasses", "Anouk Vries", 2003, "in"),
    "clocks": ("Clocks That Ran Backwards", "H. Bellamy", 1974, "reference"),
    "moss": ("Moss in Northern Cities", "Petra Lund", 2020, "in"),
    "moths": ("Moths of the Upper Valley", "Petra Lund", 2014, "out"),
    "letters": ("Letters to a Lighthouse", "Ilse Marrow", 1987, "in"),
    "stairs": ("Stairs: a History", "Tobias Klee", 2007, "in"),
}
CHORES = ("Water the plants", "Return the ladder", "Call the plumber")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
DOCTORS = {"okafor": "Dr Okafor (general)", "lindgren": "Dr Lindgren (skin)", "pereira": "Dr Pereira (eyes)"}


def page(title: str, body: str, nav: dict[str, str], around: tuple[str, str] = ("", "")) -> str:
    """A whole page with its navigation, and what stands above and below its main part."""
    links = "".join(f'<li><a href="{url}">{text}</a></li>' for text, url in nav.items())
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>'
        "body{font:15px/1.4 'DejaVu Sans',sans-serif;margin:0 auto;max-width:46em;padding:1em}nav ul{display:flex;"
        "gap:1em;list-style:none;padding:0}table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:left;"
        "border-bottom:1px solid #ccc}.error{color:#a00}form p{margin:.4em 0}</style></head><body>"
        f'{around[0]}<nav aria-label="Site"><ul>{links}</ul></nav><main><h1>{escape(title)}</h1>{body}</main>'
        f"{around[1]}</body></html>"
    )


def money(amount: float) -> str:
    """A price."""
    return f"{amount:.2f} EUR"


class Site:
    """The sites of a task with their state; `answer` gives (status, headers, body) of a request.

    Args:
        name: of the task, by which all is drawn that its steps do not name.
        steps: of the task.
    """

    def __init__(self, name: str = "", steps: str = "") -> None:
        words, steps = Words(name), steps.lower()
        brand = words.brand()
        self.kind = name.partition("/")[0]
        self.host = f"{brand.replace(' ', '-').lower()}-{self.kind}.example"
        news = "".join(f"<li>{words.sentence()}</li>" for _ in range(words.number(4, 7)))
        self._around = (
            f"<header><p>{brand}</p><p>{words.sentence()}</p></header>",
            (
                f'<aside aria-label="News"><ul>{news}</ul></aside><footer><p>Written by {words.person()} and '
                f"{words.person()}.</p><p>{words.sentence()}</p></footer>"
            ),
        )
        self._items = {
            thing.lower().replace(" ", "-"): (
                thing,
                ("kitchen", "home", "tea")[words.number(0, 2)],
                words.number(40, 900) / 10,
                words.sentence(),
            )
            for thing in words.things(words.number(5, 8))
        }
        self._items |= {key: item for key, item in ITEMS.items() if item[0].lower() in steps}
        named = {
            key: book
            for key, book in BOOKS.items()
            if key == "letters"
            or any(word in steps for word in re.findall("[a-z]{5,}", f"{book[0]} {book[1]}".lower()))
        }
        self._books = {
            title.lower().replace(" ", "-"): (title, words.person(), words.number(1921, 2024), "in")
            for title in words.titles(9 - len(named))
        } | named
        self._doctors = {key: who for key, who in DOCTORS.items() if who.lower() in steps}
        for kind in ("bones", "heart", "teeth"):
            self._doctors[kind] = f"Dr {words.person().split()[1]} ({kind})"
        self._hours = [(day, f"{words.number(7, 10)} to {words.number(14, 19)}") for day in _DAYS[words.number(0, 2) :]]
        self._product = words.things(1)[0]
        self._chapters = [" ".join(words.sentence() for _ in range(3)) for _ in range(3)]
        self._parts = [f"{thing}, no. {words.number(121, 990)}" for thing in words.things(4)]
        self.cart: dict[str, int] = {}
        self.orders: list[str] = []
        chores = [*(text for text in CHORES if text.lower() in steps), *words.chores(words.number(2, 5))]
        self.tasks: list[dict[str, Any]] = [
            {"id": number, "text": text, "done": text == CHORES[1]} for number, text in enumerate(chores, 1)
        ]
        self.visits = {"V-201": (next(iter(self._doctors.values())), f"2031-03-{words.number(10, 28)}", "09:30")}
        self.loans = ["letters"]
        self.votes = 12

    def answer(self, host: str, method: str, path: str, query: dict[str, str], form: dict[str, str], raw: bytes) -> Any:
        """(status, headers, body)."""
        handlers: dict[str, Callable[..., Any]] = {
            "shop": self.shop,
            "tasks": self.todo,
            "clinic": self.clinic,
            "library": self.library,
            "manual": self.manual,
        }
        if path == "/favicon.ico" or host.partition(":")[0] != self.host:
            return 404, {}, ""
        found = handlers[self.kind](method, path, query, form, raw)
        if found is None:
            nav = {"Home": "/"}
            return 404, {}, self._page("Page not found", f"<p>There is nothing at {escape(path)}.</p>", nav)
        if isinstance(found, str):
            return 200, {}, found
        return found

    def _page(self, title: str, body: str, nav: dict[str, str]) -> str:
        """A page of the site; what stands in a frame has no navigation, and nothing around it."""
        return page(title, body, nav, self._around if nav else ("", ""))

    @staticmethod
    def to(url: str) -> tuple[int, dict[str, str], str]:
        """Sends the browser on to another page."""
        return 303, {"Location": url}, ""

    def shop(self, method: str, path: str, query: dict[str, str], form: dict[str, str], raw: bytes) -> Any:
        """The shop: a catalogue, items, a cart, a checkout."""
        nav = {"Catalogue": "/", f"Cart ({sum(self.cart.values())})": "/cart", "Help": "/help"}
        parts = path.strip("/").split("/")
        if path == "/":
            wanted, kind, order = query.get("q", ""), query.get("kind", ""), query.get("sort", "")
            found = [
                (key, *item)
                for key, item in self._items.items()
                if wanted.lower() in item[0].lower() and kind in ("", item[1])
            ]
            if order == "price":
                found.sort(key=lambda row: row[3])
            rows = "".join(
                f'<tr><td><a href="/item/{key}">{name}</a></td><td>{group}</td><td>{money(price)}</td></tr>'
                for key, name, group, price, _ in found
            )
            options = "".join(
                f'<option value="{value}"{" selected" if value == kind else ""}>{text}</option>'
                for value, text in (("", "All"), ("tea", "Tea"), ("kitchen", "Kitchen"), ("home", "Home"))
            )
            table = f"<table><tr><th>Item</th><th>Kind</th><th>Price</th></tr>{rows}</table>"
            body = (
                f'<form><p><label>Search <input name="q" value="{escape(wanted)}"></label> '
                f'<label>Kind <select name="kind">{options}</select></label> '
                '<label><input type="checkbox" name="sort" value="price"'
                f"{' checked' if order else ''}> Cheapest first</label> <button>Show</button></p></form>"
                f"<p>{len(found)} items</p>{table if found else '<p>Nothing matches.</p>'}"
            )
            return self._page("Catalogue", body, nav)
        if parts[0] == "item" and len(parts) == 2 and parts[1] in self._items:
            key = parts[1]
            name, group, price, text = self._items[key]
            wrong = ""
            if method == "POST":
                count = form.get("count", "")
                if count.isdecimal() and 0 < int(count) <= 9:
                    self.cart[key] = self.cart.get(key, 0) + int(count)
                    return self.to("/cart")
                wrong = '<p class="error" role="alert">Please order between 1 and 9.</p>'
            body = (
                f"<p>{text}</p><p>{money(price)} · {group}</p>{wrong}<form method=post><label>Quantity "
                '<input name="count" value="1" size="3"></label> <button>Add to cart</button></form>'
            )
            return self._page(name, body, nav)
        if path == "/cart":
            if method == "POST":
                self.cart.pop(form.get("remove", ""), None)
                return self.to("/cart")
            chosen = [(key, *self._items[key][:3:2], count) for key, count in self.cart.items()]
            rows = "".join(
                f"<tr><td>{name}</td><td>{count}</td><td>{money(price * count)}</td><td><form "
                f'method="post"><button name="remove" value="{key}" aria-label="Remove {name}">Remove</button>'
                "</form></td></tr>"
                for key, name, price, count in chosen
            )
            total = sum(self._items[key][2] * count for key, count in self.cart.items())
            body = (
                f"<table><tr><th>Item</th><th>Count</th><th>Sum</th><th></th></tr>{rows}</table><p>Total "
                f'{money(total)}</p><p><a href="/checkout">Check out</a></p>'
                if self.cart
                else "<p>Your cart is empty.</p>"
            )
            return self._page("Your cart", body, nav)
        if path == "/checkout":
            return self.checkout(method, form, nav)
        if parts[0] == "order" and len(parts) == 2 and parts[1].isdecimal() and int(parts[1]) <= len(self.orders):
            return self._page("Thank you", f"<p>Order {int(parts[1])}: {self.orders[int(parts[1]) - 1]}</p>", nav)
        if path == "/help":
            body = (
                "<details><summary>How long does delivery take?</summary><p>Two to four days.</p></details><details>"
                "<summary>May I send things back?</summary><p>Yes, within thirty days, unused.</p></details>"
            )
            return self._page("Help", body, nav)
        return None

    def checkout(self, method: str, form: dict[str, str], nav: dict[str, str]) -> Any:
        """The form that makes an order of the cart."""
        wrong = []
        if method == "POST":
            wrong = [f"{field} is missing" for field in ("Name", "Street", "City") if not form.get(field.lower())]
            wrong += [] if "terms" in form else ["please accept the terms"]
            if not wrong:
                what = ", ".join(f"{count} × {self._items[key][0]}" for key, count in self.cart.items())
                self.orders.append(f"{escape(what or 'nothing')} to {escape(form['name'])} by {form.get('by', 'post')}")
                self.cart.clear()
                return self.to(f"/order/{len(self.orders)}")
        fields = "".join(
            f'<p><label>{name} <input name="{name.lower()}" value="{escape(form.get(name.lower(), ""))}"></label></p>'
            for name in ("Name", "Street", "City")
        )
        errors = f'<div class="error" role="alert">{escape("; ".join(wrong))}.</div>' if wrong else ""
        body = (
            f"{errors}<form method=post>{fields}<fieldset><legend>Delivery</legend><label><input type=radio name=by "
            "value=post checked> Post</label> <label><input type=radio name=by value=courier> Courier</label>"
            '</fieldset><p><label><input type=checkbox name="terms"> I accept the terms</label></p>'
            "<button>Order now</button></form>"
        )
        return self._page("Checkout", body, nav)

    def todo(self, method: str, path: str, query: dict[str, str], form: dict[str, str], raw: bytes) -> Any:
        """The task list, which a script in the page draws from JSON."""
        if path == "/":
            body = (
                '<form id="new"><label>New task <input name="text" autocomplete="off"></label> <button>Add</button>'
                '</form><p id="count" role="status"></p><ul id="list"></ul><p id="views"><button data-view="all">All'
                '</button> <button data-view="open">Open</button> <button data-view="done">Done</button> '
                f'<button id="clear">Clear done</button></p><script>{_SCRIPT}</script>'
            )
            return self._page("Tasks", body, {"List": "/", "About": "/about"})
        if path == "/about":
            return self._page("About", "<p>Tasks are kept until midnight.</p>", {"List": "/", "About": "/about"})
        if path == "/api/tasks":
            if method != "GET":
                wanted = json.loads(raw)
                if method == "POST":
                    if not wanted["text"].strip():
                        return 422, {"Content-Type": "application/json"}, json.dumps({"error": "a task needs a text"})
                    number = max((one["id"] for one in self.tasks), default=0) + 1
                    self.tasks.append({"id": number, "text": wanted["text"], "done": False})
                elif method == "PUT":
                    for one in self.tasks:
                        one.update(wanted if one["id"] == wanted["id"] else {})
                else:
                    self.tasks = [one for one in self.tasks if one["id"] not in wanted["ids"]]
            return 200, {"Content-Type": "application/json"}, json.dumps(self.tasks)
        return None

    def clinic(self, method: str, path: str, query: dict[str, str], form: dict[str, str], raw: bytes) -> Any:
        """The clinic: visits are booked by a form, and cancelled in a dialog."""
        nav = {"Visits": "/", "Book a visit": "/book", "Opening hours": "/hours"}
        if path == "/":
            if method == "POST":
                self.visits.pop(form.get("cancel", ""), None)
                return self.to("/")
            rows = "".join(
                f"<li>{key}: {who}, {day} at {time} <button onclick=\"document.getElementById('ask-{key}').showModal()"
                f'">Cancel {key}</button><dialog id="ask-{key}" aria-label="Cancel {key}?"><p>Really cancel {key}?</p>'
                f'<form method="post"><button name="cancel" value="{key}">Yes, cancel</button> <button '
                'formmethod="dialog">No</button></form></dialog></li>'
                for key, (who, day, time) in self.visits.items()
            )
            return self._page("Your visits", f"<ul>{rows}</ul>" if rows else "<p>No visits are booked.</p>", nav)
        if path == "/book":
            wrong = ""
            if method == "POST":
                if form.get("doctor") in self._doctors and form.get("day", "") > "2031" and form.get("time"):
                    key = f"V-{202 + len(self.visits)}"
                    self.visits[key] = (self._doctors[form["doctor"]], form["day"], form["time"])
                    done = f"<p>{key} with {self._doctors[form['doctor']]}, {form['day']} at {form['time']}.</p>"
                    return self._page(
                        "Visit booked", done + f"<p>Note: {escape(form.get('note', '') or 'none')}</p>", nav
                    )
                wrong = '<p class="error" role="alert">Choose a doctor, a day from 2031 on and a time.</p>'
            options = "".join(f'<option value="{key}">{name}</option>' for key, name in self._doctors.items())
            times = "".join(
                f'<label><input type="radio" name="time" value="{time}"> {time}</label> '
                for time in ("09:30", "11:00", "14:15")
            )
            body = (
                f'{wrong}<form method="post"><p><label>Doctor <select name="doctor"><option value="">Choose…</option>'
                f'{options}</select></label></p><p><label>Day <input type="date" name="day"></label></p><fieldset>'
                f"<legend>Time</legend>{times}</fieldset><p><label>Note <textarea name=note></textarea></label></p>"
                "<button>Book</button></form>"
            )
            return self._page("Book a visit", body, nav)
        if path == "/hours":
            rows = "".join(f"<tr><td>{day}</td><td>{hours}</td></tr>" for day, hours in self._hours)
            return self._page("Opening hours", f"<table><tr><th>Day</th><th>Open</th></tr>{rows}</table>", nav)
        return None

    def library(self, method: str, path: str, query: dict[str, str], form: dict[str, str], raw: bytes) -> Any:
        """The library: a search in pages of three, books, loans."""
        nav = {"Search": "/", f"Loans ({len(self.loans)})": "/loans", "Stacks": "/stacks"}
        parts = path.strip("/").split("/")
        if path == "/":
            return self._page("Search the library", _search(""), nav)
        if path == "/find":
            words, start = query.get("q", ""), int(query.get("from", "0"))
            found = [key for key, book in self._books.items() if words.lower() in f"{book[0]} {book[1]}".lower()]
            rows = "".join(
                f'<li><a href="/book/{key}">{self._books[key][0]}</a> by {self._books[key][1]}</li>'
                for key in found[start:][:3]
            )
            more = (
                f'<p><a href="/find?q={escape(words)}&amp;from={start + 3}">More</a></p>' if found[start + 3 :] else ""
            )
            body = _search(words) + f"<p>{len(found)} books</p><ol start={start + 1}>{rows}</ol>{more}"
            return self._page("Results", body, nav)
        if parts[0] == "book" and len(parts) == 2 and parts[1] in self._books:
            key = parts[1]
            title, author, year, state = self._books[key]
            if method == "POST":
                self.loans.append(key)
                return self.to("/loans")
            can = state == "in" and key not in self.loans
            why = {"in": "You have it.", "out": "On loan.", "reference": "Reading room only."}
            body = f"<dl><dt>Author</dt><dd>{author}</dd><dt>Year</dt><dd>{year}</dd></dl>" + (
                "<form method=post><button>Borrow</button></form>"
                if can
                else f"<p>{why['in' if key in self.loans else state]}</p>"
            )
            return self._page(title, body, nav)
        if path == "/loans":
            if method == "POST":
                self.loans = [key for key in self.loans if key not in form]
                return self.to("/loans")
            rows = "".join(
                f'<p><label><input type="checkbox" name="{key}"> {self._books[key][0]}</label></p>'
                for key in self.loans
            )
            body = f"<form method=post>{rows}<button>Return chosen</button></form>" if rows else "<p>No loans.</p>"
            return self._page("Your loans", body, nav)
        if path == "/stacks":
            return 503, {}, self._page("Stacks closed", "<p>The stacks are being moved. Try again later.</p>", nav)
        return None

    def manual(self, method: str, path: str, query: dict[str, str], form: dict[str, str], raw: bytes) -> Any:
        """The manual of a weather station: tabs, a frame, a shadow root, links that open in a new tab."""
        nav = {"Manual": "/", "Settings": "/settings", "Feedback": "/feedback"}
        if path == "/":
            names = ("Setup", "Sensors", "Trouble")
            texts = self._chapters
            tabs = "".join(
                f'<button role="tab" id="t{at}" aria-controls="p{at}" aria-selected="{"false" if at else "true"}">'
                f"{name}</button>"
                for at, name in enumerate(names)
            )
            panels = "".join(
                f'<div role="tabpanel" id="p{at}" aria-labelledby="t{at}"{" hidden" if at else ""}><p>{text}</p></div>'
                for at, text in enumerate(texts)
            )
            body = (
                f'<div role="tablist" aria-label="Chapters">{tabs}</div>{panels}<p><a href="/parts" target="_blank">'
                f"Spare parts</a></p><script>{_TABS}</script>"
            )
            return self._page(f"{self._product}: the manual", body, nav)
        if path == "/parts":
            body = "".join(f"<li>{part}</li>" for part in ["Wind vane, no. 120", *self._parts])
            return self._page("Spare parts", f"<ul>{body}</ul>", nav)
        if path == "/settings":
            body = (
                '<p><label>Units <select id="units"><option>Metric</option><option>Imperial</option></select></label>'
                '</p><p><label>Station name <input id="name" value="Roof"></label></p><p><label><input type="checkbox" '
                'id="dark"> Dark display</label></p><p><label>Alarm above <input type="range" id="wind" min="0" '
                'max="12" value="8"></label></p><x-saver></x-saver>'
                f"<script>{_SAVER}</script>"
            )
            return self._page("Settings", body, nav)
        if path == "/feedback":
            return self._page("Feedback", '<iframe src="/vote" title="Vote" width="400" height="150"></iframe>', nav)
        if path == "/vote":
            if method == "POST":
                self.votes += 1
                return self._page("Thank you", f"<p>{self.votes} readers found this useful.</p>", {})
            body = "<form method=post><p>Was this useful?</p><button>Yes</button></form>"
            return self._page("Vote", body, {})
        return None


def _search(words: str) -> str:
    return (
        f'<form action="/find" role="search"><label>Title or author <input type="search" name="q" '
        f'value="{escape(words)}"></label> <button>Search</button></form>'
    )


_SCRIPT = """
let view='all',tasks=[];const $=(q)=>document.querySelector(q);
function draw(){const shown=tasks.filter(t=>view==='all'||t.done===(view==='done'));
$('#count').textContent=tasks.filter(t=>!t.done).length+' open of '+tasks.length;
$('#list').replaceChildren(...shown.map(t=>{const li=document.createElement('li');li.dataset.id=t.id;
li.innerHTML='<label><input type=checkbox> <span></span></label> <button>Delete</button>';
const box=li.querySelector('input'),span=li.querySelector('span');box.checked=t.done;span.textContent=t.text;
li.querySelector('button').setAttribute('aria-label','Delete '+t.text);
box.onchange=()=>send('PUT',{id:t.id,done:box.checked});
li.querySelector('button').onclick=()=>send('DELETE',{ids:[t.id]});return li}));
document.querySelectorAll('[data-view]').forEach(b=>b.setAttribute('aria-pressed',b.dataset.view===view))}
async function send(method,body){const r=await fetch('/api/tasks',{method,body:body&&JSON.stringify(body)});
const data=await r.json();if(data.error){$('#count').textContent='Not added: '+data.error}else{tasks=data;draw()}}
$('#new').onsubmit=e=>{e.preventDefault();const f=e.target.elements.text;send('POST',{text:f.value});f.value=''};
document.querySelectorAll('[data-view]').forEach(b=>b.onclick=()=>{view=b.dataset.view;draw()});
$('#clear').onclick=()=>send('DELETE',{ids:tasks.filter(t=>t.done).map(t=>t.id)});send('GET');
"""
_TABS = """
const tabs=[...document.querySelectorAll('[role=tab]')];tabs.forEach((t,i)=>t.onclick=()=>{tabs.forEach((o,j)=>{
o.setAttribute('aria-selected',i===j);document.getElementById('p'+j).hidden=i!==j})});
"""
_SAVER = """
customElements.define('x-saver',class extends HTMLElement{connectedCallback(){
const root=this.attachShadow({mode:'open'});
root.innerHTML='<button>Save</button> <span role=status></span>';root.querySelector('button').onclick=()=>{
const name=document.getElementById('name').value;root.querySelector('span').textContent=name?'Saved '+name+', '
+document.getElementById('units').value.toLowerCase()+(document.getElementById('dark').checked?', dark':'')
:'A station needs a name'}}});
"""


class Handler(BaseHTTPRequestHandler):
    """Hands requests to the site that `site` holds."""

    protocol_version = "HTTP/1.1"
    site: ClassVar[Site] = Site()

    def do_GET(self) -> None:
        """Answers a request of any method."""
        url = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {key: values[-1] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        form = {key: values[-1] for key, values in parse_qs(raw.decode(), keep_blank_values=True).items()}
        host = self.headers.get("Host", "")
        status, headers, body = self.site.answer(host, self.command, url.path, query, form, raw)
        data = body.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def server() -> ThreadingHTTPServer:
    """A server of the sites on a free port of loopback."""
    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)
