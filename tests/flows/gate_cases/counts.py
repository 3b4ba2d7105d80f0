"""How often a test asks, and which test asks."""

# ruff: noqa: E501  # A row of a table is a line.

from __future__ import annotations

from support.gate_case import (
    IN_PYTEST,
    PYTEST,
    TEST,
    Append,
    Case,
    Checkout,
    Replace,
    Step,
    Write,
    green,
    red,
)

PLACES, CHAT, CONFTEST = "places_tests.py", "chat_tests.py", "conftest.py"
ASK = 'assert desk.ask("Where is my parcel?")'


def _counted(name: str, *steps: Step, tests: str = PLACES, says: str = "", **fields: object) -> Case:
    return red(name, *steps, tests=tests, says=says or r"GT\d+ .*\bcalls?\b", **fields)


TWICE = 'assert desk.ask("Ask it twice.") == desk.ask("Ask it twice.")'
CASE_COLOURS = '["red", "green", "blue"]'
SHARED = 'def test_shared_second():\n    assert desk.ask("What is shared?")\n'
CACHED_AGAIN = 'assert cached("What is cached?") == cached("What is cached?")'
OTHER_COUNTS = [
    _counted("a test asks once more", Replace(CHAT, ASK, f"{ASK}\n    {ASK}"), tests=CHAT,
             says=r'desk\.py:\d+\S*: GT6 approved with 1 call, this run made 2: "Where is my parcel\?"'),
    _counted("a test asks in a loop", Replace(CHAT, ASK, f"for _ in range(3):\n        {ASK}"), tests=CHAT),
    _counted("a test asks once less", Replace(PLACES, TWICE, 'assert desk.ask("Ask it twice.")'), says="test_twice"),
    _counted("a test asks three times instead of twice", Replace(PLACES, TWICE, f'{TWICE} == desk.ask("Ask it twice.")')),
    _counted("a test asks nothing any more though another still does",
             Replace(PLACES, SHARED, "def test_shared_second():\n    pass\n"), says="test_shared_second"),
    _counted("a test asks also what another test asks",
             Replace(PLACES, SHARED, f'{SHARED}    assert desk.ask("Which is one?")\n'), says="test_shared_second",
             ways=(TEST, PYTEST)),  # Each worker may repeat a call, as a cache in each of them would.
    _counted("a test asks what another test asks, instead of its own",
             Replace(PLACES, SHARED, SHARED.replace("What is shared?", "Which is one?"))),
    _counted("a test swallows what is too much",
             Replace(CHAT, ASK, f"{ASK}\n    try:\n        {ASK}\n    except Exception:\n        pass"), tests=CHAT),
    _counted("a case of a parametrised test is gone", Replace(PLACES, CASE_COLOURS, '["red", "green"]'),
             says="GT3"),
    _counted("all cases of a parametrised test but one are gone", Replace(PLACES, CASE_COLOURS, '["red"]'),
             says="GT3"),
    _counted("the fixture of the session asks once more",
             Replace(CONFTEST, 'return desk.ask("Greet the customer.")',
                     'desk.ask("Greet the customer.")\n    return desk.ask("Greet the customer.")')),
    _counted("the fixture of the session asks nothing", Replace(CONFTEST, 'desk.ask("Greet the customer.")', '"Hello"'),
             says=r"GT3|test_fixture|session"),
    _counted("the fixture of the module asks nothing", Replace(CONFTEST, 'desk.ask("When are you open?")', '"Always"'),
             says=r"GT3"),
    _counted("the fixture of the module becomes one of each test",
             Replace(CONFTEST, '@pytest.fixture(scope="module")', "@pytest.fixture(autouse=True)")),
    _counted("an import asks what a test asks", Replace(CHAT, "import desk\n", 'import desk\n\ndesk.ask("Where is my parcel?")\n'),
             tests=CHAT),
    _counted("a thread asks once more", Replace(PLACES, '["Which is one?", "Which is two?"]',
             '["Which is one?", "Which is two?", "Which is two?"]')),
    _counted("a new test asks what another test asks", Append(CHAT, "\n\ndef test_new():\n    assert desk.ask('Where is my parcel?')\n"),
             tests=CHAT, says="test_new", ways=(TEST, PYTEST)),
    _counted("a call in a test is gone, and its snapshot with no user", Replace(CHAT, ASK, "assert desk"), tests=CHAT,
             says="GT3"),
    _counted("a test is gone", Replace(CHAT, f"def test_chat():\n    {ASK}\n\n\n", ""), tests=CHAT, says="GT3"),
    _counted("a test became a function that nobody runs", Replace(CHAT, "def test_chat()", "def chat()"), tests=CHAT,
             says="GT3"),
    _counted("a cache of the application drops calls of one test", Replace(PLACES, TWICE,
             'assert cached("Ask it twice.") == cached("Ask it twice.")'), says="test_twice"),
]  # fmt: skip

UNKNOWN_CALLS = [
    red(name, step, tests=tests)
    for name, step, tests in (
        ("a test asks something new", Replace(CHAT, ASK, f'{ASK}\n    assert desk.ask("Is it new?")'), CHAT),
        ("a new test asks something new", Append(CHAT, "\n\ndef test_new():\n    desk.ask('Is it new?')\n"), CHAT),
        ("a test swallows a refused call",
         Replace(CHAT, ASK, f"{ASK}\n    try:\n        desk.ask('Is it new?')\n    except Exception:\n        pass"), CHAT),
        ("a call hides in an import",
         Replace(CHAT, "import desk\n", "import desk\n\ntry:\n    desk.ask('Is it new?')\nexcept Exception:\n    pass\n"), CHAT),
        ("a call hides in a fixture", Append(CONFTEST, "\n\n@pytest.fixture(autouse=True)\ndef hidden():\n    try:\n"
         "        desk.ask('Is it new?')\n    except Exception:\n        pass\n"), CHAT),
        ("a call hides in a hook of pytest", Append(CONFTEST, "\n\ndef pytest_sessionfinish():\n    try:\n"
         "        desk.ask('Is it new?')\n    except Exception:\n        pass\n"), CHAT),
        ("a call hides in a thread", Replace(CHAT, ASK, f"{ASK}\n    import threading\n    "
         "thread = threading.Thread(target=lambda: desk.send('chat/completions', {**desk.MODEL, 'messages': []}))\n"
         "    thread.start()\n    thread.join()"), CHAT),
        ("a call hides at the exit", Replace(CHAT, "import desk\n", "import atexit\n\nimport desk\n\n"
         "atexit.register(lambda: desk.send('chat/completions', {**desk.MODEL, 'messages': []}))\n"), CHAT),
    )
]  # fmt: skip

REVERSED = "\n\ndef pytest_collection_modifyitems(items):\n    items.reverse()\n"
ROTATED = "\n\ndef pytest_collection_modifyitems(items):\n    items.append(items.pop(0))\n"


def _swap_tests(checkout: Checkout) -> None:
    """Two tests change places in the file."""
    path = checkout.folder / PLACES
    text = path.read_text(encoding="utf-8")
    first, second = text.index("def test_cached():"), text.index("def test_cached_again():")
    end = text.index("def test_twice():")
    path.write_text(text[:first] + text[second:end] + text[first:second] + text[end:], encoding="utf-8")


ORDERS = [
    green("the tests run in reverse", Append(CONFTEST, REVERSED), tests=PLACES),
    green("the first test runs last", Append(CONFTEST, ROTATED), tests=PLACES),
    green("two tests change places in their file", _swap_tests, tests=PLACES),
    green("the files run in another order", tests=f"{PLACES} {CHAT}", ways=(TEST, PYTEST)),
    *(
        green(f"pytest runs with {words}", tests=PLACES, more=words, ways=(TEST, PYTEST))
        for words in ("-v", "-s", "-x", "--tb=short", "-p no:warnings", "--color=yes", "-rA", "--durations=3", "-l",
                      "--import-mode=importlib", "--capture=sys", "--strict-markers", "-W ignore", "--setup-show")
    ),
    *(
        green(f"some tests run: {words}", tests=tests, ways=IN_PYTEST if words == "-k cached" else (TEST, PYTEST))
        for words, tests in (
            ("-k cached", f"{PLACES} -k cached"), ("-k cases", f"{PLACES} -k cases"),
            ("the second test of a cache", f"{PLACES}::test_cached_again"),
            ("one case", f"'{PLACES}::test_cases[green]'"), ("a node id", f"{CHAT}::test_stream"),
            ("--deselect", f"{PLACES} --deselect {PLACES}::test_twice"),
            ("the user of a fixture", f"{PLACES}::test_fixture_again"), ("-k not", f"{PLACES} -k 'not fixture'"),
        )
    ),
    *(
        green(f"workers: {words}", tests=PLACES, more=words, ways=(TEST, PYTEST))
        for words in ("-n 1", "-n 2", "-n 3", "-n 2 --dist loadfile", "-n 2 --dist loadscope", "-n 2 --dist worksteal",
                      "-n 0")
    ),
    green("workers: -n 2 --dist each", tests=PLACES, more="-n 2 --dist each", ways=(PYTEST,)),
    green("the whole suite runs", tests="", ways=(TEST,)),
]  # fmt: skip

MOVED = "# A comment.\n" * 9
HARMLESS_CODE = [
    green("lines move", Replace("desk.py", "import json\n", f"{MOVED}import json\n")),
    green("lines of the tests move", Replace(CHAT, "import desk\n", f"import desk\n\n{MOVED}")),
    green("a function is renamed", Replace("desk.py", "run_tool", "look_up", everywhere=True), tests="tools_tests.py"),
    green("a helper stands between", Replace("desk.py", "def ask(", "def ask(question, **fields):\n    return put(question, "
          "**fields)\n\n\ndef put(")),
    green("a new test asks nothing", Append(CHAT, "\n\ndef test_new():\n    assert desk.SYSTEM\n")),
    green("a test that asks nothing is gone",
          Replace(PLACES, "def test_no_call():\n    assert desk.SYSTEM\n", ""), tests=PLACES),
    green("a test that asks nothing is skipped", Replace(PLACES, "def test_no_call", "@pytest.mark.skip\ndef test_no_call"),
          tests=PLACES),
    green("a test asserts more", Replace(CHAT, ASK, f"{ASK}\n    assert desk.MODEL")),
    green("a test has a marker", Replace(CHAT, "def test_chat", "@pytest.mark.filterwarnings('ignore')\ndef test_chat"),
          Replace(CHAT, "import desk\n", "import pytest\n\nimport desk\n")),
    green("a test is asynchronous inside", Replace(CHAT, ASK,
          "import asyncio\n    assert asyncio.run(asyncio.to_thread(desk.ask, 'Where is my parcel?'))")),
    green("calls of one test change places", Replace(PLACES, '["Which is one?", "Which is two?"]',
          '["Which is two?", "Which is one?"]'), tests=PLACES),
    green("more threads ask", Replace(PLACES, "ThreadPoolExecutor(2)", "ThreadPoolExecutor(8)"), tests=PLACES),
    green("a file of another test is broken and not collected", Write("other_tests.py", "def broken(:\n")),
]  # fmt: skip

CASES = {
    "another count": OTHER_COUNTS,
    "an unknown call": UNKNOWN_CALLS,
    "another order": ORDERS,
    "other code that asks the same": HARMLESS_CODE,
}
