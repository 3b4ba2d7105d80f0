"""The hook for `traceforge.tools.watched_function`: records and replays the calls of functions that a model calls.

In: the module, whose `call_tool` every such call goes through. Out: calls that are recorded; where an approved one
replays, its result without a run of the function. Never: runs a function whose answer is approved, unless the test
wants it to run, or it calls models itself; runs one that is not approved where nothing may be sent.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from . import dispatch
from .guarded_call import GuardedCall, call_safely, describe_error
from .held_calls import hold_call, hold_call_async, plan_hold
from .in_flight_call import ANSWERED, CLIENT_LEFT, FAILED
from .mcp_messages import read_refusal
from .patches import Patches
from .replayed_response import WAITS_ON, ReplayedResponse
from .tool_messages import (
    RUNS_ANSWER,
    NotJson,
    RecordedAnswer,
    decode_answer,
    encode_error,
    encode_request,
    encode_result,
    tool_url,
)

_ANSWERED_STATUS = 200
_HEADERS = (("content-type", "application/json"),)
_RAW_HEADERS = ((b"content-type", b"application/json"),)


def hook_tools(module: Any, patches: Patches) -> None:
    """`traceforge.tools`, in the process of the application."""
    patches.wrap(module, "call_tool", lambda _: _call)
    patches.wrap(module, "call_tool_async", lambda _: _call_async)
    patches.wrap(threading.Thread, "start", _wrap_start)
    patches.wrap(ThreadPoolExecutor, "submit", _wrap_submit)


def _wrap_start(start: Any) -> Any:
    """A thread that a tool starts is a part of it: what it asks a model is a call of the tool."""

    def watched(self: Any) -> None:
        function = self.run
        run = dispatch.carry_tool(function)
        if run is not function:
            self.run = run
        start(self)

    return watched


def _wrap_submit(submit: Any) -> Any:
    """So is what it gives to the threads of a pool, which may have been there before."""

    def watched(self: Any, function: Any, /, *args: Any, **options: Any) -> Any:
        return submit(self, dispatch.carry_tool(function), *args, **options)

    return watched


def _call(tool: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    run = _begin(tool, args, kwargs)
    if run is None:
        return function(*args, **kwargs)
    if run.replays_first:
        run.take_response(run.call.replay(run.request))
        if run.hold is not None:
            hold_call(run.hold, run.call)
            tool.refuse(f"TraceForge replay: {WAITS_ON}")
    if run.answer is not None:
        return run.give_answer()
    with dispatch.inside_tool(run.note_inner_call):
        try:
            result = function(*args, **kwargs)
        except BaseException as exc:
            run.end_with_error(exc)
            raise
    run.end_with_result(result)
    return result


async def _call_async(tool: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    run = _begin(tool, args, kwargs)
    if run is None:
        return await function(*args, **kwargs)
    if run.replays_first:
        run.take_response(await run.call.replay_async(run.request))
        if run.hold is not None:
            await hold_call_async(run.hold, run.call)
            tool.refuse(f"TraceForge replay: {WAITS_ON}")
    if run.answer is not None:
        return run.give_answer()
    with dispatch.inside_tool(run.note_inner_call):
        try:
            result = await function(*args, **kwargs)
        except BaseException as exc:
            run.end_with_error(exc)
            raise
    run.end_with_result(result)
    return result


def _begin(tool: Any, args: Any, kwargs: Any) -> _ToolRun | None:
    """The call begins; None: nothing watches it, or Python itself will refuse it."""
    mode = dispatch.find_tool_mode()
    if mode is dispatch.ConnectionMode.UNWATCHED:
        return None
    try:
        arguments = tool.find_arguments(args, kwargs)
    except TypeError:
        return None  # The call raises the same.
    try:
        request = encode_request(tool.name, arguments)
    except NotJson as exc:
        reason = f"the tool {tool.name} was called with {exc}"
        if mode is dispatch.ConnectionMode.OFFLINE:
            dispatch.count_refusal(reason)
            tool.refuse(f"TraceForge replay: {reason}")
        dispatch.note_unseen(reason)
        return None
    call = dispatch.begin_tool_call(tool_url(tool.name), _RAW_HEADERS, tool.code)
    return None if call is None else _ToolRun(tool, call, request, arguments)


class _ToolRun:
    """One call of a tool that is watched."""

    def __init__(self, tool: Any, call: GuardedCall, request: bytes, arguments: dict[str, Any]) -> None:
        self._tool = tool
        self._arguments = arguments
        self.call = call
        self.request = request
        self.replays_first = call.replays_first
        self.hold: Any = None  # how long the recorded call ran until it was cancelled
        self.answer: RecordedAnswer | None = None  # None: the function runs
        self._recorded = b""  # the approved answer, where the function runs all the same
        self._has_inner_calls = False
        if self.replays_first and tool.runs_for_real:
            call.prefer_upstream()  # `record` asks again what may have changed.

    def note_inner_call(self) -> None:
        """The function has called a model, or another tool."""
        self._has_inner_calls = True

    def take_response(self, fields: Any) -> None:
        """Take the response of the replay: the function's answer, a hold, or a refusal; None: the function runs."""
        if fields is None:
            return
        response = ReplayedResponse(*fields)
        self.hold = plan_hold(fields, None)
        if self.hold is not None:
            return
        if response.status != _ANSWERED_STATUS:
            self._tool.refuse(read_refusal(response.chunks))
        recorded = b"".join([data for _, data in response.chunks])
        try:
            answer = decode_answer(recorded, self._tool.restore)
        except ValueError as exc:
            self._tool.refuse(read_refusal(self.call.refuse(exc).chunks))
        if self._tool.runs_for_real or answer.has_to_run:
            self._recorded = recorded
        else:
            self.answer = answer

    def give_answer(self) -> Any:
        """Return, or raise, what is recorded."""
        assert self.answer is not None
        if self.answer.error is not None:
            raise self.answer.error
        return self.answer.result

    def end_with_result(self, result: Any) -> None:
        """Record the result, or compare it with the approved one."""
        call_safely(None, self._end, partial(encode_result, result, self._tool.restore))

    def end_with_error(self, exc: BaseException) -> None:
        """Record the error, or compare it; what is no `Exception` ends the call as cancelled."""
        if isinstance(exc, Exception):
            call_safely(None, self._end, partial(encode_error, exc))
        else:
            self.call.end(CLIENT_LEFT, describe_error(exc))

    def _end(self, encode: Callable[[], bytes]) -> None:
        try:
            answer = RUNS_ANSWER if self._has_inner_calls else encode()
        except NotJson as exc:
            self._end_without_answer(f"the tool {self._tool.name} answered with {exc}")
            return
        if not self._has_inner_calls and self._has_changed_arguments():
            self._end_without_answer(f"the tool {self._tool.name} changed an argument, which a replay would not do")
            return
        if self._recorded:
            self._compare(answer)
            return
        self.call.add_request_chunk(self.request)
        self.call.start_response(_ANSWERED_STATUS, _HEADERS)
        self.call.add_response_chunk(answer)
        self.call.end(ANSWERED)

    def _has_changed_arguments(self) -> bool:
        try:
            return encode_request(self._tool.name, self._arguments) != self.request
        except NotJson:
            return True

    def _end_without_answer(self, reason: str) -> None:
        if self._recorded:
            self.call.count_deviation(reason)
            return
        self.call.add_request_chunk(self.request)
        self.call.end(FAILED, reason)
        dispatch.note_unseen(reason)

    def _compare(self, answer: bytes) -> None:
        """The function ran although its answer is approved: it must not have changed."""
        if RUNS_ANSWER not in (self._recorded, answer):
            reason = f"the tool {self._tool.name} ran, and its answer is not the approved one"
            self.call.compare_answer(json.loads(self._recorded), json.loads(answer), reason)
