"""GoQueue beside its peers: the same work, on the same machine, in the same run.

`python -m goqueue_bench.peers` runs it; `bench/README.md` says what is compared and how. One module per peer knows how
to start its server and how to talk to it; `rounds` knows the workloads and the order, `report` what is stored.
"""
