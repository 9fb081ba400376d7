#!/usr/bin/env python3
"""Runs a command in a terminal of its own, waits for words and types, as a person does. Shows what is seen.

    tests/demo-console.py SECONDS [WORDS TYPED]... -- COMMAND...

When WORDS are seen, TYPED is typed ("\\n" ends a line, "\\x1d" is Ctrl-]). It ends when the command does, with its exit
code; with 1 if it takes longer than SECONDS.
"""

import codecs
import os
import pty
import re
import select
import signal
import sys
import time

# What moves the cursor and wipes screens; colours stay.
MOVES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-ln-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])")
# A sequence that has only begun.
BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[()])?$")


def main():
    at = sys.argv.index("--")
    seconds, steps, command = sys.argv[1], sys.argv[2:at], sys.argv[at + 1 :]
    steps = [(steps[i], codecs.decode(steps[i + 1], "unicode_escape")) for i in range(0, len(steps), 2)]
    end = time.monotonic() + float(seconds)
    # Stopped, it takes the command along.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    try:
        if not talk(terminal, steps, end):
            waited = f"for {steps[0][0]!r}" if steps else f"until {command[0]} ended"
            print(f"\ndemo: waited {seconds} s {waited}", file=sys.stderr)
            return 1
        status = os.waitpid(child, 0)[1]
        child = None
        return os.waitstatus_to_exitcode(status)
    finally:
        if child:
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)


def talk(terminal, steps, end):
    """Whether the command came to its end; what is left in `steps` was not seen."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    seen = held = ""
    while (left := end - time.monotonic()) > 0:
        if not select.select([terminal], [], [], left)[0]:
            continue
        try:
            read = os.read(terminal, 4096)
        except OSError:
            # The terminal is closed on the other side.
            read = b""
        if not read:
            if steps:
                print(f"\ndemo: it ended, and {steps[0][0]!r} was not seen", file=sys.stderr)
            return True
        text = held + decode(read)
        begun = BEGUN.search(text)
        held = text[begun.start() :] if begun else ""
        text = MOVES.sub("", text[: len(text) - len(held)]).replace("\r\n", "\n")
        print(text, end="", flush=True)
        seen += text
        while steps and (found := seen.find(steps[0][0])) >= 0:
            words, typed = steps.pop(0)
            seen = seen[found + len(words) :]
            os.write(terminal, typed.encode())
    return False


if __name__ == "__main__":
    sys.exit(main())
