"""Health, readiness and version: the checks really look."""

from __future__ import annotations

import asyncio
import errno
import re
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from goqueue import __version__
from goqueue.runtime.clean_shutdown import CLOSED_STATES_LOG
from goqueue.seams.disk import remove_tree
from goqueue.testing import Broker, SimDisk, Simulation, simulate
from tests.protocols.http.raw import RawHttp, serving

CHECKS = ["draining", "listeners", "catalog", "partitions", "disk", "disk_space"]


def failed(report: Any) -> dict[str, str]:
    """Return what is wrong, by check."""
    assert [check["name"] for check in report["checks"]] == CHECKS
    return {check["name"]: check["detail"] for check in report["checks"] if check["status"] != "ok"}


async def look(client: RawHttp) -> tuple[int, int, str, dict[str, str]]:
    """Return the statuses of /readyz and /healthz, and what they say."""
    ready, health = await client.call("GET", "/readyz"), await client.call("GET", "/healthz")
    assert ready.json() == health.json()
    assert ready.headers["content-type"] == "application/json"
    return ready.status, health.status, health.json()["status"], failed(health.json())


def test_a_broker_that_is_well_says_so(http: httpx.Client) -> None:
    assert http.get("/livez").json() == {"status": "ok"}
    for path in ("/readyz", "/healthz", "/v1/readyz"):
        reply = http.get(path)
        assert reply.status_code == 200
        assert reply.json()["status"] == "ok"
        assert failed(reply.json()) == {}


def test_probes_may_add_a_query_and_ask_for_the_head_only(http: httpx.Client) -> None:
    assert http.get("/readyz?verbose").status_code == 200
    reply = http.head("/livez")
    assert (reply.status_code, reply.content, reply.headers["content-length"]) == (200, b"", "15")


def test_the_version_tells_which_broker_it_is(http: httpx.Client) -> None:
    version = http.get("/version").json()
    assert version == {
        "name": "goqueue",
        "version": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "node_id": 1,
        "cluster_id": version["cluster_id"],
    }
    assert str(UUID(version["cluster_id"])) == version["cluster_id"]


def test_root_leads_a_browser_somewhere_useful(http: httpx.Client) -> None:
    reply = http.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "host": "localhost:5"})
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    paths = re.findall("<a href=([^>]+)>", reply.text)
    assert {"/docs", "/openapi.json", "/topics", "/healthz", "/metrics"} <= set(paths)
    for path in paths:
        assert http.get(path).status_code == 200, path
    assert "curl http://localhost:5/topics/" in reply.text
    assert not re.search("(src|href)=['\"]?http", reply.text)


def test_root_tells_programs_the_same(http: httpx.Client) -> None:
    for path in ("/", "/v1/"):
        told = http.get(path, headers={"accept": "*/*"}).json()
        assert (told["name"], told["version"]) == ("goqueue", __version__)
        assert "/openapi.json" in [link["path"] for link in told["links"]]


def test_a_disk_that_cannot_be_written_to_is_noticed() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            assert await look(client) == (200, 200, "ok", {})
            fault = disk.fail(errno.EROFS, operation="write", path="*probe")
            await asyncio.sleep(2)
            ready, health, status, wrong = await look(client)
            assert (ready, health, status) == (503, 200, "degraded")
            assert list(wrong) == ["disk"]
            assert "Read-only" in wrong["disk"]
            assert fault.hits == 1
            disk.heal()
            await asyncio.sleep(2)
            assert await look(client) == (200, 200, "ok", {})
            assert not any("probe" in name for name in disk.tree())

    simulate(main, 0)


def test_probes_in_quick_succession_cost_the_disk_one_write() -> None:
    async def main(simulation: Simulation) -> None:
        async with serving(simulation) as server:
            client = await server.client()
            await client.call("GET", "/readyz")
            operations = server.disk.operations
            for _ in range(20):
                await client.call("GET", "/readyz")
            assert server.disk.operations - operations < 10

    simulate(main, 0)


def test_a_partition_that_takes_no_writes_is_named() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await client.call("POST", "/topics", {"name": "t", "partitions": 2})
            disk.fail(errno.EIO, operation="sync", path="t-1/*.log")
            message = {"value": "x", "partition": 1}
            reply = await client.call("POST", "/topics/t/messages", {"messages": [message]})
            assert (reply.status, reply.json()["results"][0]["error"]["code"]) == (503, "log_offline")
            ready, health, status, wrong = await look(client)
            assert (ready, health, status) == (503, 200, "degraded")
            assert wrong["partitions"].startswith("t-1: ")
            good, bad = (await client.call("GET", "/topics/t/partitions")).json()["partitions"]
            assert "error" not in good
            assert bad["error"]["code"] == "log_offline"
            other = {"value": "x", "partition": 0}
            assert (await client.call("POST", "/topics/t/messages", {"messages": [other]})).status == 200

    simulate(main, 0)


def test_absolute_paths_are_shown_on_the_same_machine_only() -> None:
    directory = Path("/srv/secret/place")

    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk, data_dir=directory) as server:
            here, elsewhere = await server.client("127.0.0.1"), await server.client("10.0.0.9")
            await here.call("POST", "/topics", {"name": "t", "partitions": 1})
            disk.fail(errno.EIO, operation="write", path="*/t-0/*.log")
            path_as_value = {"messages": [{"value": str(directory)}]}
            for client, is_shown in ((here, True), (elsewhere, False)):
                published = await client.call("POST", "/topics/t/messages", path_as_value)
                assert published.status == 503
                told = [published.json()["results"][0]["error"]["message"]]
                told += failed((await client.call("GET", "/healthz")).json()).values()
                (partition,) = (await client.call("GET", "/topics/t/partitions")).json()["partitions"]
                told.append(partition["error"]["message"])
                assert any(str(directory) in text for text in told) is is_shown, told
                assert any("t-0" in text for text in told)
            disk.make_directory(directory / "u-0")
            for client, is_shown in ((here, True), (elsewhere, False)):
                refusal = (await client.call("POST", "/topics", {"name": "u", "partitions": 1})).json()
                assert refusal["code"] == "unknown_files"
                assert (str(directory) in refusal["detail"]) is is_shown
                assert "u-0 is there already" in refusal["detail"]
            await here.call("POST", "/topics/v/messages", {"messages": [{"value": str(directory), "partition": 0}]})
            read = await elsewhere.call("GET", "/topics/v/partitions/0/messages")
            assert read.json()["messages"][0]["value"] == str(directory)

    simulate(main, 0)


def test_messages_without_a_key_avoid_a_partition_that_takes_no_writes() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await client.call("POST", "/topics", {"name": "t", "partitions": 3})
            disk.fail(errno.EIO, operation="sync", path="t-1/*.log")
            await client.call("POST", "/topics/t/messages", {"messages": [{"partition": 1}]})
            chosen = []
            for _ in range(4):
                reply = await client.call("POST", "/topics/t/messages", {"messages": [{"value": "x"}]})
                assert reply.status == 200
                chosen.append(reply.json()["results"][0]["partition"])
            assert chosen == [0, 2, 0, 2]

    simulate(main, 0)


def test_a_log_that_cannot_be_opened_at_the_start_is_named() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await client.call("POST", "/topics", {"name": "t", "partitions": 2})
            await client.call("POST", "/topics/t/messages", {"messages": [{"partition": 1, "value": "x"}]})
        # After a kill there is no record of a clean stop, so every log is opened at the start.
        remove_tree(disk, server.server.broker.core.directory / CLOSED_STATES_LOG)
        disk.fail(errno.EIO, operation="open", path="t-1/*", times=None)
        async with serving(simulation, disk) as server:
            client = await server.client()
            ready, health, status, wrong = await look(client)
            assert (ready, health, status) == (503, 200, "degraded")
            assert "t-1" in wrong["partitions"]
            _, bad = (await client.call("GET", "/topics/t/partitions")).json()["partitions"]
            assert set(bad) == {"partition", "leader", "error"}
            reply = await client.call("GET", "/topics/t/partitions/1/messages")
            assert (reply.status, reply.json()["code"]) == (503, "log_offline")

    simulate(main, 0)


def test_damaged_unused_log_is_named_soon_after_the_start_until_it_can_be_opened() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            for topic in ("gone", "hidden", "sound"):
                await client.call("POST", "/topics", {"name": topic, "partitions": 1})
                await client.call("POST", f"/topics/{topic}/messages", {"messages": [{"value": "x"}]})
        remove_tree(disk, server.server.broker.core.directory / "gone-0")
        disk.fail(errno.EIO, operation="open", path="hidden-0/*", times=None)
        async with serving(simulation, disk) as server:
            client = await server.client()
            await asyncio.sleep(3)
            ready, health, status, wrong = await look(client)
            assert (ready, health, status) == (503, 200, "degraded")
            assert "gone-0: it cannot be opened" in wrong["partitions"]
            assert "hidden-0" in wrong["partitions"]
            assert "sound" not in wrong["partitions"]
            assert "goqueue_logs_offline 2" in (await client.call("GET", "/metrics")).body.decode()
            disk.heal()
            await asyncio.sleep(3)
            _, _, _, wrong = await look(client)
            assert "hidden-0" not in wrong["partitions"]
            assert server.server.broker.topics.topic("sound").partition(0).log.is_unopened

    simulate(main, 0)


def test_a_broken_catalogue_is_the_end_of_service() -> None:
    async def main(simulation: Simulation) -> None:
        disk = SimDisk(seed=1)
        async with serving(simulation, disk) as server:
            client = await server.client()
            disk.fail(errno.EIO, operation="sync", path="__catalog-0/*.log")
            reply = await client.call("POST", "/topics", {"name": "t"})
            assert (reply.status, reply.json()["code"]) == (503, "log_offline")
            ready, health, status, wrong = await look(client)
            assert (ready, health, status) == (503, 503, "down")
            assert "catalog" in wrong
            assert (await client.call("GET", "/livez")).status == 200

    simulate(main, 0)


def test_a_full_disk_makes_a_broker_unready_and_reads_go_on() -> None:
    with Broker(disk_guard_free_fraction=0.0) as broker:
        reply = httpx.post(f"{broker.http}/topics/t/messages", json={"messages": [{"value": "x", "partition": 0}]})
        assert reply.status_code == 200
        broker.stop()
        with Broker(data_dir=broker.data_dir, disk_guard_free_fraction=1.0) as guarded:
            url = guarded.http
            reply = httpx.post(f"{url}/topics/t/messages", json={"messages": [{"value": "x", "partition": 0}]})
            assert (reply.status_code, reply.json()["results"][0]["error"]["code"]) == (507, "disk_full")
            reply = httpx.post(f"{url}/topics", json={"name": "new"})
            assert (reply.status_code, reply.json()["code"]) == (507, "disk_full")
            assert len(httpx.get(f"{url}/topics/t/partitions/0/messages").json()["messages"]) == 1
            ready = httpx.get(f"{url}/readyz")
            assert ready.status_code == 503
            assert list(failed(ready.json())) == ["disk_space"]
            assert httpx.get(f"{url}/healthz").json()["status"] == "degraded"


def test_the_page_for_people_needs_nothing_from_elsewhere(http: httpx.Client) -> None:
    reply = http.get("/docs")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert not re.search(r"(src|href)=['\"]?(https?:)?//", reply.text)
    assert "<script" not in reply.text
    for code in ("unknown_topic", "offset_out_of_range", "internal_error", "body_too_large"):
        assert f"id={code}>" in reply.text
