"""Records what Python's jinja2 makes of the templates that test/template/jinja2.test.ts compares with.

    python3 scripts/record-jinja2.py           writes test/template/fixtures/jinja2.json
    python3 scripts/record-jinja2.py --check   exits 1 if the recording is not current

Expressions are compared as values, text templates as text. Generated cases come from a fixed seed. Where Umbra
differs on purpose (docs/templates.md, "Differences from Jinja2") there is no case here.
"""

import base64
import json
import pathlib
import random
import sys
import types

import jinja2

VERSION = "3.1.6"
ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / "test/template/fixtures/jinja2.json"
CASES = ROOT / "test/template/fixtures/cases.json"

CONTEXT = {
    "n": 7,
    "f": 2.5,
    "neg": -3,
    "zero": 0,
    "s": "Hello World",
    "empty": "",
    "text": "the quick brown fox jumps over the lazy dog and runs away",
    "lines": "one\ntwo\n\nthree",
    "uni": "Grüße 😀 naïve",
    "yes": True,
    "no": False,
    "nothing": None,
    "xs": [3, 1, 2],
    "words": ["pear", "Apple", "fig", "apple"],
    "none_list": [],
    "nested": [[1, 2], [3, 4]],
    "m": {"a": 1, "b": {"c": [10, 20, {"d": "deep"}]}, "key with space": "v"},
    "empty_map": {},
    "people": [
        {"name": "Ada", "age": 36, "team": "x", "tags": ["a", "b"]},
        {"name": "Bob", "age": 25, "team": "y", "tags": []},
        {"name": "Cyd", "age": 41, "team": "x", "tags": ["c"], "boss": True},
    ],
}


def environment():
    env = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    # Filters that Ansible and others add, which Umbra has too.
    env.filters["split"] = lambda value, sep=None, maxsplit=-1: value.split(sep, maxsplit)
    env.filters["b64encode"] = lambda value: base64.b64encode(value.encode()).decode()
    env.filters["b64decode"] = lambda value: base64.b64decode(value).decode()
    env.filters["fromjson"] = json.loads
    return env


def plain(value):
    """A JSON value, or an error: lazy sequences are listed, tuples are lists."""
    if isinstance(value, jinja2.Undefined):
        raise jinja2.UndefinedError("undefined")
    if isinstance(value, (types.GeneratorType, range, map, filter, zip)) or hasattr(value, "__next__"):
        return [plain(item) for item in value]
    if isinstance(value, (list, tuple, type({}.keys()), type({}.values()), type({}.items()))):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return str(value) if isinstance(value, str) else value
    raise TypeError(type(value).__name__)


def of_expression(env, source):
    return plain(env.compile_expression(source, undefined_to_none=False)(**CONTEXT))


def of_text(env, source):
    return env.from_string(source).render(**CONTEXT)


def record(env, kind, source):
    case = {"kind": kind, "source": source}
    try:
        case["result"] = of_expression(env, source) if kind == "expression" else of_text(env, source)
        json.dumps(case, allow_nan=False)
    except jinja2.TemplateSyntaxError:
        case["error"] = "syntax"
    except jinja2.UndefinedError:
        case["error"] = "missing"
    except Exception:  # noqa: BLE001 - whatever Python raises, the template cannot be evaluated
        case.pop("result", None)
        case["error"] = "evaluation"
    return case


def comparable(env, source):
    """Umbra's `unique` compares lists and mappings by value, where Python cannot hash them."""
    try:
        of_expression(env, source)
    except TypeError as error:
        return "unhashable" not in str(error)
    except Exception:  # noqa: BLE001 - recorded as an error
        pass
    return True


def generated(count):
    """Expressions over the context, from a fixed seed. Small numbers only: Python's are unbounded."""
    chance = random.Random(20)

    def number(depth):
        if depth == 0 or chance.random() < 0.3:
            return chance.choice(["n", "neg", "zero", "f", "1", "2", "10", "0.5", "m.a", "xs[0]", "xs[-1]", "people[1].age"])
        pick = chance.randrange(6)
        if pick < 3:
            operator = chance.choice(["+", "-", "*", "/", "//", "%"])
            return f"({number(depth - 1)} {operator} {number(depth - 1)})"
        if pick == 3:
            return f"{listing(depth - 1)}|length"
        if pick == 4:
            return f"({number(depth - 1)})|{chance.choice(['abs', 'int', 'round(1)', 'float'])}"
        return f"({number(depth - 1)} if {truth(depth - 1)} else {number(depth - 1)})"

    def string(depth):
        if depth == 0 or chance.random() < 0.3:
            return chance.choice(["s", "empty", "'a-b c'", "words[0]", "people[0].name", "m['key with space']", "uni"])
        pick = chance.randrange(5)
        if pick == 0:
            return f"({string(depth - 1)} ~ {string(depth - 1)})"
        if pick == 1:
            return f"({string(depth - 1)})[{chance.choice([':3', '1:', '-4:', '::-1', '::2', '2:-1'])}]"
        if pick == 2:
            return f"({string(depth - 1)} * {chance.choice(['0', '1', '2'])})"
        names = ["upper", "lower", "title", "trim", "capitalize", "reverse", "replace('a', 'bc')", "truncate(9)", "urlencode"]
        return f"({string(depth - 1)})|{chance.choice(names)}"

    def listing(depth):
        if depth == 0 or chance.random() < 0.3:
            return chance.choice(["xs", "words", "none_list", "nested", "[1, 'a', none]", "people|map(attribute='age')|list"])
        pick = chance.randrange(5)
        if pick == 0:
            return f"({listing(depth - 1)} + {listing(depth - 1)})"
        if pick == 1:
            return f"({listing(depth - 1)})[{chance.choice([':2', '1:', '::-1', '-2:'])}]"
        if pick == 2:
            return f"range({chance.randrange(5)}, {chance.randrange(9)}, {chance.choice([1, 2, 3])})|list"
        return f"({listing(depth - 1)})|{chance.choice(['reverse|list', 'sort', 'unique|list', 'batch(2)|list', 'slice(2)|list', 'list'])}"

    def truth(depth):
        if depth == 0:
            return chance.choice(["yes", "no", "n > 3", "s in words", "nothing is none", "m.z is defined", "xs"])
        pick = chance.randrange(5)
        if pick == 0:
            return f"({truth(depth - 1)} {chance.choice(['and', 'or'])} {truth(depth - 1)})"
        if pick == 1:
            return f"(not {truth(depth - 1)})"
        if pick == 2:
            return f"({number(depth - 1)} {chance.choice(['<', '<=', '>', '>=', '==', '!='])} {number(depth - 1)})"
        if pick == 3:
            return f"({string(depth - 1)} {chance.choice(['==', '<', 'in', 'not in'])} {string(depth - 1)})"
        return f"({number(depth - 1)} {chance.choice(['in', 'not in'])} {listing(depth - 1)})"

    made = []
    while len(made) < count:
        source = chance.choice([number, string, listing, truth])(3)
        if source not in made and len(source) < 300:
            made.append(source)
    return made


def main():
    if jinja2.__version__ != VERSION:
        sys.exit(f"jinja2 {VERSION} is needed, found {jinja2.__version__}")
    env = environment()
    written = json.loads(CASES.read_text())
    cases = [record(env, "expression", source) for source in written["expressions"]]
    cases += [record(env, "text", source) for source in written["texts"]]
    cases += [record(env, "expression", source) for source in generated(320) if comparable(env, source)]
    recording = {"jinja2": VERSION, "context": CONTEXT, "cases": cases}
    text = json.dumps(recording, indent=1, ensure_ascii=False) + "\n"
    if "--check" in sys.argv:
        # Compared as values: the formatter lays the file out its own way.
        sys.exit(0 if json.loads(TARGET.read_text()) == json.loads(text) else "the recording is not current: run scripts/record-jinja2.py")
    TARGET.write_text(text)
    errors = sum("error" in case for case in cases)
    print(f"{len(cases)} cases, {errors} of them errors")


if __name__ == "__main__":
    main()
