"""The broker for tests: quick, real, independent, and gone when it has ended."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from goqueue.errors import DataDirectoryLocked, InvalidSettings
from goqueue.log.events import SegmentsExpired
from goqueue.testing import Broker

READY_SECONDS_MAX = 0.1


def publish(broker: Broker, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(10) == 0


def bounds(broker: Broker, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test", "log_level": 0})
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        return first, end
    finally:
        consumer.close()


def test_it_is_ready_after_a_tenth_of_a_second_of_work() -> None:
    taken = []
    for _ in range(5):
        # Time of the processor, of all threads: a machine that is busy with other tests has nothing to do with it.
        began = time.process_time()
        with Broker():
            taken.append(time.process_time() - began)
    assert min(taken) < READY_SECONDS_MAX


def test_the_fixture_is_a_running_broker(goqueue_broker: Broker) -> None:
    publish(goqueue_broker, "orders", "one")
    assert bounds(goqueue_broker, "orders") == (0, 1)


def test_a_session_shares_one_broker_if_it_asks_for_that(tmp_path: Path) -> None:
    # The fixture of this name that tests of GoQueue have is another.
    tests = "def test_it(goqueue_session_broker):\n    print(goqueue_session_broker.bootstrap)\n"
    for name in ("test_one.py", "test_other.py"):
        (tmp_path / name).write_text(tests, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    ended = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    addresses = re.findall(r"127\.0\.0\.1:\d+", ended.stdout)
    assert ended.returncode == 0, ended.stdout
    assert len(addresses) == 2
    assert addresses[0] == addresses[1]


def test_two_brokers_know_nothing_of_each_other() -> None:
    with Broker() as one, Broker() as other:
        assert one.bootstrap != other.bootstrap
        publish(one, "orders", "one")
        publish(other, "orders", "one", "two")
        assert (bounds(one, "orders"), bounds(other, "orders")) == ((0, 1), (0, 2))


def test_a_restart_keeps_what_was_published() -> None:
    with Broker() as broker:
        publish(broker, "orders", "one", "two")
        broker.restart()
        assert bounds(broker, "orders") == (0, 2)


def test_records_are_old_once_the_clock_was_moved() -> None:
    with Broker(default_segment_bytes=1024) as broker:
        publish(broker, "orders", *("x" * 500 for _ in range(10)))
        broker.advance(3600)
        assert bounds(broker, "orders") == (0, 10)
        broker.advance(8 * 86_400)
        first, end = bounds(broker, "orders")
        assert first > 0
        assert end == 10
        assert broker.sink.of(SegmentsExpired)


def test_nothing_is_left_when_it_has_ended() -> None:
    threads = set(threading.enumerate())
    broker = Broker()
    with broker:
        directory = broker.data_dir
        assert directory.is_dir()
    assert not directory.exists()
    assert set(threading.enumerate()) == threads
    broker.stop()
    broker.close()


def test_a_directory_of_the_test_is_kept(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        publish(broker, "orders", "one")
    with Broker(data_dir=tmp_path) as broker:
        assert bounds(broker, "orders") == (0, 1)


def test_a_directory_has_one_broker_at_a_time(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        with pytest.raises(DataDirectoryLocked):
            Broker(data_dir=tmp_path).start()
        publish(broker, "orders", "one")


def test_wrong_settings_are_told_where_it_is_started() -> None:
    broker = Broker(host="0.0.0.0", default_partitions=0)
    with pytest.raises(InvalidSettings, match="default_partitions"):
        broker.start()
    broker.close()


def test_a_broker_that_does_not_run_says_so() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="not running"):
        assert broker.bootstrap
    broker.close()
