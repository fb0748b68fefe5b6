"""A vault that is being edited: every change is found, nothing is embedded twice, bad input is reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.sweeps import ALL

from .conftest import User, wait_for


def write(user, path, text):
    file = user.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def wait_until_heard(user):
    """Wait until all that was saved so far is indexed: a note that is saved last is found."""
    last = write(user, f"last-{time.monotonic_ns()}.md", "Saved last.").name
    wait_for(lambda: user.get(f"/node/{last}").status_code == 200, "the note that was saved last")
    user.wait_until_quiet()


def embedded(user) -> int:
    """Count the texts that the workers embedded since the logs began."""
    lines = (user.state / "logs" / "worker.log").read_text().splitlines()
    return sum(json.loads(line).get("embedded", 0) for line in lines if line.startswith("{"))


@pytest.fixture(params=["embedded", "redis"] if ALL else ["redis"])
def running(request, user):
    """A running service on the embedded queue, and on Redis."""
    if request.param == "redis":
        user.environment["REDIS_URL"] = request.getfixturevalue("redis_url")
    write(user, "first.md", "# First\n\nThe garden soil.")
    user.up()
    return user


@pytest.fixture(scope="module", params=["embedded", "redis"] if ALL else ["embedded"])
def lasting(request, tmp_path_factory, tiny_model):
    """A running service for several tests, each with a folder of its own."""
    base = tmp_path_factory.mktemp("lasting")
    (base / "notes").mkdir()
    url = {"REDIS_URL": request.getfixturevalue("redis_server")} if request.param == "redis" else {}
    user = User(base, base / "notes", EMBEDDING_MODEL=str(tiny_model), **url)
    write(user, "first.md", "# First\n\nThe garden soil.")
    user.up()
    yield user
    user.stop()


def test_a_save_an_edit_a_move_and_a_deletion_are_followed(running):
    user = running
    write(user, "new.md", "The word is zanzibar.")
    wait_for(
        lambda: user.found("zanzibar") == ["new.md"] or "new.md" in user.found("zanzibar")[:1], "a saved note"
    )
    # An editor's atomic save is only a move.
    beside = write(user, ".new.md.tmp", "The word is quetzal.")
    beside.rename(user.root / "new.md")
    wait_for(
        lambda: "quetzal" in user.get("/search", q="quetzal").json()["results"][0]["excerpt"],
        "an atomic save",
    )
    count = embedded(user)
    (user.root / "deep").mkdir()
    (user.root / "new.md").rename(user.root / "deep/moved.md")
    wait_for(lambda: user.found("quetzal")[:1] == ["deep/moved.md"], "a moved note")
    assert "new.md" not in user.found("quetzal")
    (user.root / "deep").rename(user.root / "deeper")
    wait_for(lambda: user.found("quetzal")[:1] == ["deeper/moved.md"], "a moved folder")
    user.wait_until_quiet()
    assert embedded(user) == count
    (user.root / "deeper/moved.md").unlink()
    assert "deeper/moved.md" not in user.found("quetzal")  # at once: a hit whose file is gone is not served
    wait_for(lambda: user.json("status")["domains"]["vault"]["notes"] == 1, "the deletion")


def test_a_restart_on_an_unchanged_vault_embeds_nothing_and_sees_what_changed_meanwhile(running):
    user = running
    assert "watching by" in user.run("status", *user.place)
    user.stop()
    assert not user.health()
    assert "watching by" not in user.run("status", *user.place)
    count = embedded(user)
    user.up()
    assert embedded(user) == count
    user.stop()
    write(user, "offline.md", "Written while nothing ran: xylophone.")
    user.up()
    assert user.found("xylophone")[0] == "offline.md"


def test_a_save_and_a_revert_within_a_second_leave_the_disk_as_it_is(lasting):
    user = lasting
    for _ in range(5):
        write(user, "first.md", "# First\n\nSomething else entirely.")
        time.sleep(0.12)
        write(user, "first.md", "# First\n\nThe garden soil.")
        time.sleep(0.08)
    wait_until_heard(user)
    assert "garden" in user.get("/node/first.md").json()["chunks"][0]["text"]


def test_a_folder_renamed_and_saves_made_during_scans_are_all_found(lasting):
    user = lasting
    before = user.json("status")["domains"]["vault"]["notes"]
    for n in range(200):
        write(user, f"many/note {n}.md", f"# Note {n}\n\nThe river number {n}.")
    user.run("index", *user.place)
    (user.root / "many").rename(user.root / "more")
    write(user, "during.md", "Saved in between: wolverine.")
    user.run("index", *user.place)
    user.wait_until_quiet()
    assert user.json("status")["domains"]["vault"]["notes"] == before + 201
    assert user.found("wolverine")[0] == "during.md"
    assert "many" not in {path.split("/")[0] for path in user.found("river number 7")}


def test_a_note_that_was_saved_right_before_waiting_is_findable_afterwards(lasting):
    for word in ("aardvark", "quokka", "wombat"):
        (lasting.root / f"{word}.md").write_text(f"A note about the {word}.")
        lasting.run("status", "--wait", *lasting.place)
        assert lasting.found(word)[0] == f"{word}.md"


def test_a_file_is_indexed_by_the_running_service(lasting):
    write(lasting, "request/Boat.md", "a wherry")
    assert lasting.run("index", "request/Boat.md", *lasting.place).startswith("request/Boat.md: 1 passage, ")
    assert lasting.run("index", "--force", "request/Boat.md", *lasting.place).endswith(" ms\n")
    said = lasting.run("index", "Nowhere.md", "/etc/hostname", "first.md", *lasting.place, code=1)
    assert "error: Nowhere.md is unknown: there is no such file" in said
    assert f"error: /etc/hostname is outside the vault {lasting.root}" in said
    assert "first.md: 1 passage, " in said


def test_who_waits_for_a_paused_domain_is_told_so_and_goes_on_once_it_is_resumed(lasting):
    (domain,) = lasting.health()["domains"]
    lasting.post("/ops/queue/pause", domain=domain)
    write(lasting, "paused.md", "vermiculite")
    wait_for(lambda: lasting.health()["pending"], "the save is noticed")
    waiting = lasting.start("status", "--wait", *lasting.place)
    said = waiting.stdout.readline()
    lasting.post("/ops/queue/resume", domain=domain)
    rest, _ = waiting.communicate(timeout=60)
    assert f"{domain} is paused since" in said
    assert (waiting.returncode, "is paused" in rest) == (0, False)
    assert lasting.found("vermiculite")[0] == "paused.md"


def test_a_file_that_changes_while_it_is_read_ends_as_on_disk(lasting):
    user = lasting
    writer = (
        "import sys,time\n"
        "for n in range(300):\n"
        "    with open(sys.argv[1], 'w') as f:\n"
        "        f.write(f'Version {n}: ' + 'word ' * 500); f.flush(); time.sleep(0.003); f.write('end')\n"
    )
    subprocess.run([sys.executable, "-c", writer, str(user.root / "busy.md")], check=True)
    wait_until_heard(user)
    assert "Version 299" in user.get("/node/busy.md").json()["chunks"][0]["text"]


def test_a_wiped_queue_loses_no_note(running):
    user = running
    for n in range(40):
        write(user, f"{n}.md", f"Note {n} of forty.")
    if "REDIS_URL" in user.environment:
        import redis

        redis.Redis.from_url(user.environment["REDIS_URL"]).flushall()
    else:
        for file in user.state.glob("queue.db*"):
            file.unlink()
    wait_for(lambda: user.health()["domains"]["vault"]["notes"] == 41, "every note")
    user.wait_until_quiet()
    assert user.json("status")["domains"]["vault"]["notes"] == 41


def test_awkward_files_are_parked_or_ignored_and_the_rest_is_indexed(user):
    write(user, "good.md", "Fine.")
    write(user, "empty.md", "")
    (user.root / "huge.md").write_bytes(b"x" * 50_000_000)
    (user.root / "invalid.md").write_bytes(b"caf\xe9 words")
    os.mkfifo(user.root / "fifo.md")
    (user.root / "link.md").symlink_to("/etc/hostname")
    write(user, "note.sync-conflict-20260101.md", "copy")
    write(user, "emoji 🌱 'quoted'.md", "Leaf.")
    user.up()
    status = user.json("status")
    domain = status["domains"]["vault"]
    assert (domain["notes"], domain["parked"], domain["ignored"]) == (4, 2, 2)
    assert {note["path"]: note["kind"] for note in status["parked_notes"]} == {
        "huge.md": "too-large",
        "fifo.md": "not-a-file",
    }
    assert user.json("why", "huge.md")["state"] == "parked"
    assert user.run("index", "--retry", "huge.md", *user.place) == "huge.md is tried again\n"
    assert "there is no such file" in user.run("index", "--retry", "no.md", *user.place, code=1)
    user.wait_until_quiet()
    assert user.json("why", "huge.md")["state"] == "parked", "it is still as large"
    assert user.json("show", "invalid.md")["warnings"]


def test_a_change_of_the_domains_is_picked_up_and_an_invalid_one_is_reported(user):
    write(user, "fitness/run.md", "Running and sail.")
    write(user, "other.md", "Bread and yeast.")
    user.up()
    assert list(user.health()["domains"]) == ["vault"]
    count = embedded(user)
    write(user, "_domains.yaml", "rest:\n  legacy: true\nfitness:\n")
    wait_for(lambda: user.health()["domains"].get("fitness", {}).get("notes") == 1, "the new domain")
    user.wait_until_quiet()
    write(user, "_domains.yaml", "rest:\n  legacy: true\n  pth: x\nfitness:\n")
    problems = wait_for(lambda: user.health()["problems"], "the error")
    assert "_domains.yaml:3" in problems[0]
    assert "did you mean 'path'" in problems[0]
    assert set(user.health()["domains"]) == {"rest", "fitness"}
    assert user.found("running")[0] == "fitness/run.md"
    assert embedded(user) <= count + 2


def test_a_killed_worker_or_query_worker_or_watcher_is_started_again(user):
    write(user, "first.md", "The garden.")
    user.up()
    for n, command in enumerate(("watch", "work", "serve")):
        pid = int(
            subprocess.run(
                ["pgrep", "-f", f"everindex {command} --vault {user.root} "],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()[0]
        )
        os.kill(pid, signal.SIGKILL)
        write(user, f"after {n}.md", f"Saved after the kill: aardvark{n}.")
        wait_for(
            lambda n=n: user.health() and f"after {n}.md" in user.found(f"aardvark{n}"), f"{command} back"
        )


def test_children_end_with_their_supervisor_however_it_dies(user):
    write(user, "first.md", "The garden.")
    up = user.up()
    up.kill()
    up.communicate()
    gone = ["pgrep", "-f", f"(everindex|service.cli) .* --vault {user.root} "]
    wait_for(
        lambda: subprocess.run(gone, capture_output=True, check=False).returncode == 1,
        "no process is left",
        30,
    )


def test_index_does_once_what_up_does_for_ever(user):
    for n in range(3):
        write(user, f"{n}.md", f"Note {n}: the market and the share.")
    assert "3 new" in user.run("index", *user.place)
    assert "0 texts embedded" in user.run("index", *user.place)
    assert user.json("search", "market")["count"] == 3


def test_a_damaged_cache_is_reported_and_a_rebuild_keeps_the_old_file(user):
    write(user, "a.md", "Words to keep.")
    user.run("index", *user.place)
    cache = user.state / "cache-vault.1.db"
    for side in ("-wal", "-shm"):
        (user.state / f"cache-vault.1.db{side}").unlink(missing_ok=True)
    cache.write_bytes(b"this is no database" * 500)
    assert "everindex index --rebuild" in user.run("index", *user.place, code=1)
    assert "cache-vault.1.db is kept" in user.run("index", "--rebuild", *user.place)
    assert cache.read_bytes().startswith(b"this is no database")
    assert user.json("search", "words")["results"][0]["path"] == "a.md"


def test_an_index_that_is_deleted_while_it_is_open_is_made_again_and_stops_no_other(user):
    slugs = ("bread", "river", "soil")
    (user.root / "_domains.yaml").write_text("bread: {legacy: true}\nriver: {}\nsoil: {}\n")
    for slug in slugs:
        (user.root / slug).mkdir()
        for n in range(20):
            write(user, f"{slug}/{n}.md", f"Note {n} of {slug}: the market and the share.")
    user.up()
    for slug in (*slugs, *slugs):
        # The journal beside it stays, and the processes go on using it.
        (user.state / f"cache-{slug}.1.db").unlink()
        wait_for(
            lambda slug=slug: (
                user.get("/health").json()["domains"].get(slug, {}).get("notes") == 20
                and user.found(f'"Note 7 of {slug}"') == [f"{slug}/7.md"]
            ),
            f"the index of {slug}; {user.logs()}",
        )
        assert user.get("/health").status_code == 200
    user.wait_until_quiet()


def test_another_model_is_refused_and_reembed_changes_over_while_search_goes_on(user, tmp_path, tiny_model):
    import shutil

    other = tmp_path / "other-model"
    shutil.copytree(tiny_model, other)
    write(user, "a.md", "The river and the boat.")
    user.up()
    first = user.environment["EMBEDDING_MODEL"]
    user.environment["EMBEDDING_MODEL"] = str(other)
    user.run("reembed", *user.place)
    wait_for(lambda: user.health()["domains"]["vault"]["model"] == str(other), "the new cache")
    user.wait_until_quiet()
    write(user, "b.md", "The market price.")
    wait_for(lambda: "b.md" in user.found("market"), "a save after the change")
    user.stop()
    user.up()
    user.stop()
    user.environment["EMBEDDING_MODEL"] = first
    assert "everindex reembed" in user.run("up", *user.place, code=1)
    assert not [
        one for one in psutil.process_iter(["cmdline"]) if str(user.state) in (one.info["cmdline"] or [])
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("index", "/no/such/vault"), 1, "/no/such/vault"),
        (("search", "x", "--vault", "/no/such/vault"), 1, "/no/such/vault"),
        (("search", "x"), 1, "everindex up"),
        (("search",), 2, "QUERY"),
        (("up", ".", "--state", "/proc/nowhere"), 1, "--state"),
        (("nonsense",), 2, "nonsense"),
    ],
)
def test_a_mistake_gets_a_clear_message_and_its_exit_code(user, arguments, code, said):
    message = user.run(*arguments, code=code)
    assert said in message
    assert "Traceback" not in message


def test_while_a_vault_is_moved_away_status_says_so_and_questions_are_answered(user, tmp_path):
    write(user, "a.md", "The oven.")
    user.up()
    user.root.rename(tmp_path / "elsewhere")
    assert f"the vault {user.root} is not there" in user.run("status", *user.place)
    assert "a.md" in user.run("search", "oven", *user.place)
    assert "a.md" in user.run("list", *user.place)
    (tmp_path / "elsewhere").rename(user.root)
    wait_for(lambda: not user.health()["problems"], "the vault is back")


def test_a_port_in_use_is_reported_and_leaves_nothing_behind(user):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", user.port))
        taken.listen()
        message = user.run("up", *user.place, "--port", str(user.port), code=2)
    assert f"port {user.port}" in message
    assert not (user.root / ".everindex").exists()
    assert "was never indexed" in user.run("search", "oven", *user.place, code=1)


def test_config_says_each_value_and_its_origin(user):
    rows = user.json("config")
    assert rows["vault"]["from"] == "argument"
    assert rows["embedding_model"]["from"] == "environment"
    assert rows["port"] == {"value": "8741", "from": "default"}


def test_a_copied_vault_gets_an_index_of_its_own_and_a_moved_one_keeps_its(user, tmp_path):
    import shutil

    def state_of(root):
        (root_id,) = (root / ".everindex" / "id").read_text().split()
        return root_id

    write(user, "a.md", "The oven.")
    user.run("index", str(user.root))
    before = state_of(user.root)
    shutil.copytree(user.root, tmp_path / "copy")
    user.run("index", str(tmp_path / "copy"))
    assert state_of(tmp_path / "copy") != before
    user.root.rename(tmp_path / "moved")
    assert "0 texts embedded" in user.run("index", str(tmp_path / "moved"))
    assert state_of(tmp_path / "moved") == before
