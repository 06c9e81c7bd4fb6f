"""Marks around figures in Markdown, and numbers outside of them."""

import re

MARK = re.compile(r"<!-- figure (?P<name>[^>]*?) -->(?P<value>.*?)<!-- end -->", re.DOTALL)
ANY_MARK = re.compile(r"<!-- (?:figure [^>]*|end) -->")
# Code is what a reader types; so are the targets of links and comments.
CODE = re.compile(r"^```.*?^```[^\n]*$|`[^`\n]*`|\]\([^)\n]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE)
NUMBER = r"(?<![\w.,/-])\d[\d,]*(?:\.\d+)?"
UNIT = r"(?:µs|us|ms|s|seconds?|minutes?|hours?|[kKMGT]i?B(?:/s)?|bytes|[GT]?FLOPs?(?:/s)?|[GT]OP/s|[MG]Hz|times|fold)(?![\w/])|%|×(?=[\s.,;)])"
CLAIM = re.compile(rf"{NUMBER}\s?(?:{UNIT})|{NUMBER}\s+of\s+(?:the\s+|its\s+|all\s+)?{NUMBER}")
NUMERIC_CELL = re.compile(r"[*~]*\d[\d,]*(?:\.\d+)?[*%]*")


class Broken(Exception):
    """A mark without an end, or a figure that is not known. Begins with the line."""


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def marks(text):
    """The marks of a document. Raises Broken where they are not pairs, or begin a line of a paragraph."""
    found = list(MARK.finditer(text))
    inside = {position for match in found for position in (match.start(), match.end() - len("<!-- end -->"))}
    for match in ANY_MARK.finditer(text):
        if match.start() not in inside:
            raise Broken(f"{line_of(text, match.start())}: {match.group()} is not one of a pair")
    for match in found:
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        if not before.strip() and "\n" not in match["value"]:
            # Markdown takes such a line for HTML, and leaves its links and code alone.
            raise Broken(f"{line_of(text, match.start())}: figure {match['name']}: a figure within a line must not begin it")
    return found


def expected(text, match, figure):
    """What belongs between the marks: tables and paragraphs on lines of their own."""
    try:
        value = figure(*match["name"].split())
    except (LookupError, TypeError, ValueError, OSError) as error:
        raise Broken(f"{line_of(text, match.start())}: figure {match['name']}: {error}") from error
    return f"\n{value}\n" if "\n" in value or "\n" in match["value"] else value


def replaced(text, figure):
    """The document with its figures put in. `figure` gives the text of a name and its arguments."""
    made, end = "", 0
    for match in marks(text):
        made += text[end : match.start("value")] + expected(text, match, figure)
        end = match.end("value")
    return made + text[end:]


def differences(text, figure):
    """Where figures are not what they should be: line, expected and found."""
    found = []
    for match in marks(text):
        wanted = expected(text, match, figure)
        if wanted == match["value"]:
            continue
        lines = wanted.split("\n"), match["value"].split("\n")
        number = next((n for n, (a, b) in enumerate(zip(*lines)) if a != b), min(map(len, lines)))
        [want, have] = [part[number] if number < len(part) else "" for part in lines]
        line = line_of(text, match.start("value")) + number
        found.append(f"{line}: figure {match['name']}: expected '{want}', found '{have}'")
    return found


def blank(match):
    """Nothing, in as many lines."""
    return "\n" * match.group().count("\n") or " "


def uncovered(text, allowed=()):
    """Numbers with units, and tables of numbers, that stand outside of marks."""
    # A figure may stand before a unit that is typed: what is left of it is no number.
    text = CODE.sub(blank, MARK.sub(lambda match: blank(match) if "\n" in match.group() else "figure", text))
    for phrase in allowed:
        text = text.replace(phrase, "")
    found = [(line_of(text, match.start()), " ".join(match.group().split())) for match in CLAIM.finditer(text)]
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("|"):
            found += [(number, cell.strip()) for cell in line.split("|") if NUMERIC_CELL.fullmatch(cell.strip())]
    return [
        f"{line}: '{what}' comes from no results file: mark it as a figure, or take it out"
        for line, what in sorted(set(found))
    ]
