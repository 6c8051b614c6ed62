"""A team gets in, meets its limits and is shut out again, on the running service."""

from __future__ import annotations

import json

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import Service


def test_a_teams_life(service: Service) -> None:
    with service.http() as admin:
        limits = {"requests_per_minute": 2, "output_tokens_per_minute": 100}
        team = {"name": "team", "service_class": "interactive", "limits": limits}
        assert admin.post("/admin/v1/tenants", json=team).status_code == 201
        made = admin.post("/admin/v1/keys", json={"tenant": "team"}).json()
        alias = {"target": service.model}
        whose = {"tenant": "team"}
        assert admin.put("/admin/v1/aliases/fast", json=alias, params=whose).status_code == 200

        headers = {"authorization": f"Bearer {made['key']}"}
        body = {"model": "fast", "prompt": "One, two,", "max_tokens": 10, "ignore_eos": True}
        with httpx.Client(base_url=service.url, headers=headers, timeout=60) as team_http:
            answers = [team_http.post("/v1/completions", json=body) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 429]
            assert answers[0].headers["x-ratelimit-limit-requests"] == "2"
            assert admin.post(f"/admin/v1/keys/{made['id']}/revoke").status_code == 200
            assert team_http.post("/v1/completions", json=body).status_code == 401

        audit = admin.get("/admin/v1/audit", params={"limit": 4}).json()["data"]
        actions = ["key.revoke", "alias.set", "key.create", "tenant.create"]
        assert [entry["action"] for entry in audit] == actions
        used = admin.get("/admin/v1/usage", params={"by": "tenant", "tenant": "team"}).json()
        assert used["data"][0]["completion_tokens"] == 20
        text = admin.get("/metrics").text
    found = {
        (sample.name, sample.labels.get("limit")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("tenant", "team") == "team"
    }
    assert found["headrace_quota_used_total", "output_tokens_per_minute"] == 20
    assert found["headrace_quota_held", "output_tokens_per_minute"] == 0
    assert found["headrace_quota_refusals_total", "requests_per_minute"] >= 1
    assert found["headrace_worker_up", None] == 1
    assert made["key"] not in text


def test_models_and_drain_by_command(service: Service) -> None:
    at = (f"--url={service.url}", f"--key={service.key}", "--json")
    assert json.loads(service.command("models", "ps", *at).stdout)[0]["state"] == "ready"
    assert json.loads(service.command("drain", "--wait=10", *at).stdout)["draining"] is True
    try:
        assert httpx.get(f"{service.url}/readyz").status_code == 503
    finally:
        assert json.loads(service.command("drain", "--undo", *at).stdout)["draining"] is False
    assert httpx.get(f"{service.url}/readyz").status_code == 200
