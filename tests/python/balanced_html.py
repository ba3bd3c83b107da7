"""A parser for tests of pages."""
import html.parser

VOID = {"meta", "br", "img", "hr", "link", "input"}


class Balanced(html.parser.HTMLParser):
    """Fails on a tag that is closed out of order, and collects ids."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.external = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.external += [value for key, value in attrs.items() if key in ("src", "href") and value and value.startswith("http")]

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
