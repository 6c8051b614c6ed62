"""What was reserved, used and refused, from the quotas' own account."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from headrace.quotas.tally import QuotaTally

WHAT = ("tenant", "limit")


def quota_families(tally: QuotaTally) -> Iterable[Metric]:
    refused = CounterMetricFamily(
        "headrace_quota_refusals", "Requests a limit refused (429).", labels=("limit", "subject")
    )
    for labels, count in tally.refused.items():
        refused.add_metric(labels, count)
    yield refused
    reserved = CounterMetricFamily(
        "headrace_quota_reserved", "Reserved by what is settled.", labels=WHAT
    )
    used = CounterMetricFamily("headrace_quota_used", "Used of that.", labels=WHAT)
    held = GaugeMetricFamily("headrace_quota_held", "Reserved by what is on its way.", labels=WHAT)
    for labels, flow in tally.flows.items():
        reserved.add_metric(labels, flow.reserved)
        used.add_metric(labels, flow.used)
        held.add_metric(labels, flow.held)
    yield from (reserved, used, held)
    for name, about, total in (
        ("store_failures", "Calls to the store that failed or took too long.", tally.failures),
        ("store_outages", "Times that the store was given up.", tally.outages),
        ("decided_alone", "Reservations decided by a share of limits.", tally.decided_alone),
    ):
        yield CounterMetricFamily(f"headrace_quota_{name}", about, total)
    alone = "1 while the store is out of reach and shares of limits decide."
    yield GaugeMetricFamily("headrace_quota_alone", alone, float(tally.alone))
    yield GaugeMetricFamily("headrace_quota_edges", "Edges that share the limits.", tally.edges)
