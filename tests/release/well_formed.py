"""Whether HTML is well formed: every tag that is opened is closed, in order, and known attributes are in order."""

from html.parser import HTMLParser

VOID = {"meta", "br", "line", "rect", "polyline", "circle", "path", "input", "hr"}


class Checker(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.faults, self.tags, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if len({name for name, _ in attributes}) < len(attributes):
            self.faults.append(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> does not close what is open")

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text.append(data)


def parsed(html):
    checker = Checker()
    checker.feed(html)
    checker.close()
    checker.faults += [f"<{tag}> is never closed" for tag in checker.open]
    return checker
