"""Adds a run's origin and its goals to a benchmark's JSON object, and checks that it is one.

Reads the object from standard input, writes it back on one line. The goals are those of
bench/goals.toml, which `xtask goals` evaluates: a line that lacks one of its figures is refused, so
that a changed layout is noticed at once. Never invents a value: what cannot be read here is null.
"""

import datetime
import json
import os
import platform
import subprocess
import sys


def first_line(*command):
    """The first line that a command prints, or None when it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip().splitlines()[0] if done.stdout.strip() else ""


def cpu_model():
    """The processor's name as the kernel tells it."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return None


def memory_bytes():
    """All of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def goals_of(name, line):
    """The line's goals, each with its value and verdict; ends the program where one is missing."""
    command = ("cargo", "run", "-q", "-p", "xtask", "--", "goals", name)
    done = subprocess.run(command, input=line, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        # The run may have taken long: its figures are shown, though not recorded.
        sys.exit(f"{line}\nbenchmark {name}: no goals for this line: nothing recorded")
    return json.loads(done.stdout)


def main():
    name, command = sys.argv[1:3]
    try:
        figures = json.loads(sys.stdin.read())
    except json.JSONDecodeError as error:
        sys.exit(f"benchmark {name}: its last line is not JSON ({error}): nothing recorded")
    if not isinstance(figures, dict):
        sys.exit(f"benchmark {name}: its last line is not a JSON object: nothing recorded")
    figures["goals"] = goals_of(name, json.dumps(figures))
    # Lines that other benchmarks have just added, and the tables made of them, change no program.
    programs = ("--", ".", ":!bench/results", ":!bench/*.md")
    changed = first_line("git", "status", "--porcelain", "--untracked-files=no", *programs)
    figures["run"] = {
        "bench": name,
        "command": os.path.basename(command.split()[0]) + command[len(command.split()[0]) :],
        "commit": first_line("git", "rev-parse", "HEAD"),
        "commit_is_clean": None if changed is None else changed == "",
        "time_utc": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory_bytes(),
        "kernel": platform.release(),
        "rustc": first_line("rustc", "--version"),
    }
    print(json.dumps(figures, sort_keys=False))


if __name__ == "__main__":
    main()
