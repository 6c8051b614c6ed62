"""Tenants, keys, names, prices and records by HTTP."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.store.errors import DatabaseUnavailable
from tests.edge.admin.conftest import ROOT, Headquarters


async def test_a_tenants_life(either_hq: Headquarters) -> None:
    hq = either_hq
    limits = {"requests_per_minute": 60, "budget": "5.00"}
    made = await hq.ask("POST", "/tenants", 201, name="acme", weight=3, limits=limits)
    assert (made["name"], made["weight"], made["service_class"]) == ("acme", 3, "default")
    assert made["limits"]["budget"] == "5.00"
    assert made["limits"]["input_tokens_per_minute"] is None
    assert made == await hq.ask("GET", "/tenants/acme")
    change = {"limits": {"budget": None, "concurrent_requests": 2}, "models": ["tiny"]}
    changed = await hq.ask("PATCH", "/tenants/acme", **change)
    kept = {"requests_per_minute": 60, "budget": None, "concurrent_requests": 2}
    assert changed["limits"] == made["limits"] | kept
    assert (changed["models"], changed["weight"]) == (["tiny"], 3)
    assert (await hq.ask("PATCH", "/tenants/acme", models=None, enabled=False))["models"] is None
    assert (await hq.ask("POST", "/tenants", 409, name="acme"))["error"]["code"] == "conflict"
    assert (await hq.ask("GET", "/tenants/nope", 404))["error"]["code"] == "not_found"
    assert (await hq.ask("PATCH", "/tenants/nope", 404, weight=2))["error"]["code"] == "not_found"


async def test_a_keys_life(either_hq: Headquarters) -> None:
    hq = either_hq
    await hq.ask("POST", "/tenants", 201, name="acme")
    made = await hq.new_key(limits={"requests_per_minute": 5})
    assert made["key"].startswith(f"hr-{made['id']}_")
    assert (made["scopes"], made["state"], made["tenant"]) == (["inference"], "valid", "acme")
    assert await hq.models_status(made["key"]) == 200
    shown = await hq.ask("GET", f"/keys/{made['id']}")
    assert shown == {name: value for name, value in made.items() if name != "key"}

    limits = {"concurrent_requests": 3, "requests_per_minute": None}
    limited = await hq.ask("PATCH", f"/keys/{made['id']}", limits=limits)
    assert limited == shown | {"limits": shown["limits"] | limits}
    await hq.ask("PATCH", f"/keys/{made['id']}", 400)
    await hq.ask("PATCH", f"/keys/{made['id']}", 400, limits={"concurrent_requests": 0})
    await hq.ask("PATCH", "/keys/nope", 404, limits=limits)

    rotated = await hq.ask("POST", f"/keys/{made['id']}/rotate", grace_seconds=60)
    assert rotated["key"] != made["key"]
    assert len(rotated["secrets"]) == 2
    assert [await hq.models_status(k["key"]) for k in (made, rotated)] == [200, 200]
    again = await hq.ask("POST", f"/keys/{made['id']}/rotate", grace_seconds=0)
    statuses = [await hq.models_status(k["key"]) for k in (made, rotated, again)]
    assert statuses == [401, 401, 200]

    revoked = await hq.ask("POST", f"/keys/{made['id']}/revoke")
    assert revoked["state"] == "revoked"
    assert await hq.models_status(again["key"]) == 401
    assert await hq.ask("POST", f"/keys/{made['id']}/revoke") == revoked
    await hq.ask("POST", f"/keys/{made['id']}/rotate", 400, grace_seconds=1)
    await hq.ask("POST", "/keys/nope/revoke", 404)
    await hq.ask("POST", "/keys", 404, tenant="nobody")
    past = await hq.ask("POST", "/keys", 400, tenant="acme", expires_at=int(time.time()) - 1)
    assert "past" in past["error"]["message"]


async def test_a_disabled_tenant_is_turned_away_at_once(hq: Headquarters) -> None:
    await hq.ask("POST", "/tenants", 201, name="acme")
    key = (await hq.new_key())["key"]
    assert await hq.models_status(key) == 200
    await hq.ask("PATCH", "/tenants/acme", enabled=False)
    assert await hq.models_status(key) == 403
    assert (
        "own tenant"
        in (await hq.ask("PATCH", "/tenants/root", 409, enabled=False))["error"]["message"]
    )
    await hq.ask("PATCH", "/tenants/acme", enabled=True)
    assert await hq.models_status(key) == 200


async def test_names(hq: Headquarters) -> None:
    await hq.ask("POST", "/tenants", 201, name="acme")
    whose = {"query": {"tenant": "acme"}}
    alias = await hq.ask("PUT", "/aliases/openai/gpt", target="tiny@v1", **whose)
    assert (alias["name"], alias["tenant"], alias["target"]) == ("openai/gpt", "acme", "tiny@v1")
    everybodys = await hq.ask("PUT", "/aliases/fast", target="tiny")
    assert (await hq.ask("GET", "/aliases"))["data"] == [everybodys, alias]
    assert (await hq.ask("GET", "/aliases", **whose))["data"] == [alias]
    tenant = await hq.ask("GET", "/tenants/acme")
    assert tenant["aliases"] == {"fast": "tiny", "openai/gpt": "tiny@v1"}
    assert await hq.ask("DELETE", "/aliases/openai/gpt", **whose) == alias
    await hq.ask("DELETE", "/aliases/openai/gpt", 404, **whose)

    pin = await hq.ask("PUT", "/pins/tiny", version="v1", **whose)
    assert (await hq.ask("GET", "/pins"))["data"] == [pin]
    assert (await hq.ask("GET", "/tenants/acme"))["pins"] == {"tiny": "v1"}
    assert await hq.ask("DELETE", "/pins/tiny", **whose) == pin
    missing = await hq.ask("PUT", "/pins/tiny", 400, version="v1")
    assert missing["error"]["param"] == "tenant"


async def test_prices(hq: Headquarters) -> None:
    plain = await hq.ask("POST", "/prices", 201, model="tiny", input="0.15", output="0.60")
    assert (plain["version"], plain["input"], plain["cached_input"]) == (1, "0.15", "0.15")
    long = {"from_tokens": 8000, "input": "0.30", "cached_input": "0.03", "output": "1.20"}
    body = {"model": "tiny", "input": "0.15", "cached_input": "0.015", "output": "0.60"}
    priced = await hq.ask("POST", "/prices", 201, **body, long=long)
    assert (priced["version"], priced["long"]) == (2, long)
    assert (await hq.ask("GET", "/prices"))["data"] == [plain, priced]
    assert (await hq.ask("GET", "/prices", query={"model": "other"}))["data"] == []
    for wrong in ({"input": "0,15"}, {"output": "-1"}, {"input": 0.15}, {"input": "1e3"}):
        error = (await hq.ask("POST", "/prices", 400, **{**body, **wrong}))["error"]
        assert error["param"] == next(iter(wrong))


async def test_lists_come_page_by_page(either_hq: Headquarters) -> None:
    hq = either_hq
    names = [f"tenant-{number}" for number in range(5)]
    for name in names:
        await hq.ask("POST", "/tenants", 201, name=name)
    for _ in range(4):
        await hq.new_key(names[0])
    assert await all_of(hq, "/tenants", "name") == ["root", *names]
    keys = await all_of(hq, "/keys", "id")
    assert len(keys) == len(set(keys)) == 5
    assert len(await all_of(hq, "/keys", "id", tenant=names[0])) == 4
    actions = await all_of(hq, "/audit", "action")
    assert actions == ["key.create"] * 4 + ["tenant.create"] * 5 + ["key.create", "tenant.create"]


@pytest.mark.parametrize("path", ["/aliases", "/pins", "/prices", "/models", "/usage"])
async def test_lists_in_one_piece_say_that_there_is_no_more(hq: Headquarters, path: str) -> None:
    found = await hq.ask("GET", path)
    assert (found["object"], found["has_more"]) == ("list", False)


async def all_of(hq: Headquarters, path: str, field: str, **query: Any) -> list[Any]:
    found: list[Any] = []
    id = "name" if path == "/tenants" else "id"
    while True:
        page = await hq.ask("GET", path, query={"limit": 2, **query})
        found += [item[field] for item in page["data"]]
        ends = [item[id] for item in (page["data"][:1] + page["data"][-1:])]
        assert [page["first_id"], page["last_id"]] == (ends or [None, None])
        if not page["has_more"]:
            return found
        query["after"] = page["last_id"]


async def test_the_audit_log_names_the_key_and_no_secret(hq: Headquarters) -> None:
    await hq.ask("POST", "/tenants", 201, name="acme")
    key = await hq.new_key()
    entry = (await hq.ask("GET", "/audit", query={"limit": 1}))["data"][0]
    assert (entry["actor"], entry["action"], entry["subject"]) == (
        f"key:{ROOT.id}",
        "key.create",
        key["id"],
    )
    log = await hq.ask("GET", "/audit")
    assert key["key"].split("_", 1)[1] not in str(log)
    assert (await hq.ask("GET", "/audit", query={"subject": "acme"}))["data"][0]["before"] is None


async def test_a_change_that_cannot_be_told_fails(
    hq: Headquarters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hq.ask("POST", "/tenants", 201, name="acme")
    key = await hq.new_key()

    async def unreachable() -> None:
        raise DatabaseUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr(hq.changes, "refresh", unreachable)
        error = (await hq.ask("POST", f"/keys/{key['id']}/revoke", 503))["error"]
    assert error["code"] == "service_unavailable"
    assert (await hq.ask("POST", f"/keys/{key['id']}/revoke"))["state"] == "revoked"
    assert await hq.models_status(key["key"]) == 401


@pytest.mark.parametrize(
    ("method", "path", "fields", "param"),
    [
        ("POST", "/tenants", {"name": "a", "wieght": 2}, "wieght"),
        ("POST", "/tenants", {"weight": 2}, "name"),
        ("POST", "/tenants", {"name": "a", "weight": "2"}, "weight"),
        ("POST", "/tenants", {"name": "a", "limits": {"rpm": 1}}, "limits.rpm"),
        ("POST", "/tenants", {"name": "a", "limits": {"budget": 5}}, "limits.budget"),
        ("PATCH", "/tenants/root", {"weight": None}, "weight"),
        ("PATCH", "/tenants/root", {"name": "b"}, "name"),
        ("POST", "/keys", {"tenant": "root", "scopes": ["god"]}, "scopes[0]"),
        ("POST", "/keys", {"tenant": "root", "scopes": []}, "scopes"),
        ("PATCH", "/keys/boot", {"limits": {}, "scopes": ["admin"]}, "scopes"),
        ("GET", "/tenants", {"query": {"limit": "0"}}, "limit"),
        ("GET", "/tenants", {"query": {"limit": "many"}}, "limit"),
        ("GET", "/tenants", {"query": {"page": "2"}}, "page"),
        ("GET", "/tenants", {"query": [("limit", "1"), ("limit", "2")]}, "limit"),
        ("GET", "/audit", {"query": {"after": "x"}}, "after"),
        ("PUT", "/aliases/x", {"target": "a b"}, "target"),
        ("GET", "/tenants/root", {"query": {"deep": "1"}}, "deep"),
        ("POST", "/keys/boot/revoke", {"when": "later"}, None),
        ("POST", "/drain", {"query": {"wait": "1"}}, "wait"),
    ],
)
async def test_what_is_wrong_is_named(
    hq: Headquarters, method: str, path: str, fields: dict[str, Any], param: str | None
) -> None:
    error = (await hq.ask(method, path, 400, **fields))["error"]
    assert (error["param"], error["type"]) == (param, "invalid_request_error")


async def test_what_does_not_exist_and_circles_are_refused_by_name(hq: Headquarters) -> None:
    await hq.ask("POST", "/tenants", 201, name="acme")
    whose = {"query": {"tenant": "acme"}}

    async def said(method: str, path: str, **fields: Any) -> str:
        error: str = (await hq.ask(method, path, 400, **fields))["error"]["message"]
        return error

    assert "no model or alias 'tinny'" in await said("PUT", "/aliases/a", target="tinny")
    assert "no version 'v9' of tiny" in await said("PUT", "/aliases/a", target="tiny@v9")
    assert "no version 'v9' of tiny" in await said("PUT", "/pins/tiny", version="v9", **whose)
    assert "no model 'nope'" in await said("PUT", "/pins/nope", version="v1", **whose)
    assert "no model 'nope'" in await said("POST", "/prices", model="nope", input="1", output="1")
    await hq.ask("PUT", "/aliases/a", target="auto")
    await hq.ask("PUT", "/aliases/b", target="a")
    assert "a -> b -> a" in await said("PUT", "/aliases/a", target="b")
    await hq.ask("PUT", "/aliases/c", target="b", **whose)
    assert "leads back" in await said("PUT", "/aliases/b", target="c", **whose)


@pytest.mark.parametrize("name", ["(others)", "../../x", "a b", "a\nb", "-x", "", "x" * 201])
async def test_a_tenants_name_has_a_strict_form(hq: Headquarters, name: str) -> None:
    error = (await hq.ask("POST", "/tenants", 400, name=name))["error"]
    assert error["param"] == "name"


async def test_a_tenant_that_may_use_no_model_is_refused(hq: Headquarters) -> None:
    error = (await hq.ask("POST", "/tenants", 400, name="acme", models=[]))["error"]
    assert error["param"] == "models"
