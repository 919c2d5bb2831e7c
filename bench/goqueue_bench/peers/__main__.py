"""`python -m goqueue_bench.peers`: compare GoQueue with the peers that this machine has, and store the result."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from goqueue_bench.log.workloads import private_workspace
from goqueue_bench.machine import describe
from goqueue_bench.peers.apache_kafka import ApacheKafka
from goqueue_bench.peers.goqueue_broker import GoQueue
from goqueue_bench.peers.nats import NatsJetStream
from goqueue_bench.peers.peer import Peer
from goqueue_bench.peers.postgres import PostgresQueue
from goqueue_bench.peers.rabbit_quorum import RabbitQuorum
from goqueue_bench.peers.rabbit_stream import RabbitStream
from goqueue_bench.peers.redis import RedisStreams
from goqueue_bench.peers.report import report, table
from goqueue_bench.peers.rounds import Comparison, Plan

PEERS: tuple[Peer, ...] = (
    GoQueue(),
    ApacheKafka(),
    NatsJetStream(),
    PostgresQueue(),
    RabbitQuorum(),
    RabbitStream(),
    RedisStreams(),
)
QUICK = Plan(rounds=1, warm_up_seconds=0.2, publish_seconds=0.3, latency_seconds=0.2, queue_seconds=0.2)

_ATTEMPTS = 4


def main(arguments: list[str]) -> int:
    """Run the comparison; fail if GoQueue itself could not do its work."""
    asked = _parser().parse_args(arguments)
    wanted = [peer for peer in PEERS if not asked.only or any(word in peer.name.lower() for word in asked.only)]
    left_out = {peer.name: reason for peer in wanted if (reason := peer.missing()) is not None}
    for name, reason in left_out.items():
        _announce(f"{name} is left out: {reason}")
    attempts = _ATTEMPTS if asked.patience else 1
    plan = Plan(rounds=asked.rounds, patience_seconds=asked.patience, attempts=attempts, seed=asked.seed)
    if asked.quick:
        plan = QUICK
    comparison = Comparison([peer for peer in wanted if peer.name not in left_out], plan, _announce)
    with private_workspace(asked.data_dir) as workspace:
        machine = describe(workspace)
    comparison.run(asked.data_dir)
    left_out |= comparison.failed
    document = report(machine, plan, wanted, comparison.samples, left_out)
    if asked.output:
        asked.output.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    sys.stdout.write(table(document))
    return 1 if GoQueue.name in comparison.failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m goqueue_bench.peers", description=main.__doc__)
    parser.add_argument("--output", type=Path, help="write the result, as JSON, to this file")
    parser.add_argument("--data-dir", type=Path, help="let the servers store below this directory")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="only peers with one of these words in their name")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--patience",
        type=float,
        default=0,
        metavar="SECONDS",
        help="wait so long at most for a quiet moment before each server, and try again if others disturb it",
    )
    parser.add_argument("--seed", type=int, default=0, help="decides the order of the peers")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works, not how fast")
    return parser


def _announce(what: str) -> None:
    sys.stderr.write(f"{what}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
