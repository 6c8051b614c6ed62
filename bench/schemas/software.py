"""Build pipelines, infrastructure, monitoring and other machines that talk to machines."""

from __future__ import annotations

from schemas.parts import (
    DATE,
    EMAIL,
    FLAG,
    HOST,
    IPV4,
    IPV6,
    LINK,
    MOMENT,
    SPAN,
    UUID,
    Schema,
    any_of,
    between,
    choice,
    integer,
    many,
    maybe,
    multiple,
    number,
    one_of,
    only,
    pattern,
    record,
    ref,
    table,
    text,
    tuple_of,
)

VERSION = pattern(r"\d{1,2}\.\d{1,2}\.\d{1,2}")
COMMIT = pattern("[0-9a-f]{12}")

SCHEMAS: dict[str, Schema] = {
    "build pipeline": record(
        {
            "name": text(20, 1),
            "on": many(choice("push", "tag", "schedule"), 1, 2),
            "stages": many(
                record(
                    {
                        "name": choice("lint", "build", "test", "deploy"),
                        "run": many(text(30, 2), 1, 2),
                        "timeout_minutes?": integer(1, 120),
                        "allow_failure": FLAG,
                    }
                ),
                1,
                3,
            ),
        }
    ),
    "build result": record(
        {
            "commit": COMMIT,
            "state": choice("queued", "running", "passed", "failed"),
            "seconds": number(0, 7200),
            "failed_tests": many(pattern("test_[a-z_]{3,20}"), 0, 3),
        }
    ),
    "container": record(
        {
            "image": pattern(r"[a-z]{3,10}:\d{1,2}\.\d{1,2}"),
            "ports": many(
                record({"host": integer(1024, 65535), "inside": integer(1, 65535)}), 0, 2
            ),
            "environment": table(text(16), "[A-Z_]{3,12}"),
            "restart": choice("no", "always", "on-failure"),
        }
    ),
    "deployment": record(
        {
            "kind": only("Deployment"),
            "metadata": record({"name": pattern("[a-z][a-z-]{2,14}"), "labels?": table(text(12))}),
            "spec": record(
                {
                    "replicas": integer(0, 50),
                    "strategy": choice("Recreate", "RollingUpdate"),
                    "memory": pattern(r"\d{1,4}(Mi|Gi)"),
                }
            ),
        }
    ),
    "health check": record(
        {
            "status": choice("pass", "warn", "fail"),
            "checks": table(
                record({"status": choice("pass", "warn", "fail"), "ms": number(0)}),
                "(database|queue|disk)",
            ),
        }
    ),
    "alert": record(
        {
            "rule": text(24, 1),
            "severity": choice("info", "warning", "critical"),
            "value": number(),
            "threshold": number(),
            "since": MOMENT,
            "labels": record({"host": HOST, "service": text(12)}),
        }
    ),
    "metric series": record(
        {
            "metric": pattern("[a-z]+(_[a-z]+){1,2}"),
            "unit": choice("s", "bytes", "percent"),
            "points": many(tuple_of(integer(0, 4102444800), number()), 1, 4),
        }
    ),
    "log line": record(
        {
            "at": MOMENT,
            "level": choice("debug", "info", "warn", "error"),
            "message": text(60),
            "trace?": pattern("[0-9a-f]{32}"),
            "fields?": table(any_of(text(12), integer(), FLAG), "[a-z]{2,8}"),
        }
    ),
    "http route": record(
        {
            "method": choice("GET", "POST", "PUT", "DELETE"),
            "path": pattern(r"/v[12](/[a-z]{2,10}){1,3}"),
            "upstream": record({"host": HOST, "port": integer(1, 65535)}),
            "timeout": SPAN,
        }
    ),
    "dns zone": record(
        {
            "zone": HOST,
            "records": many(
                one_of(
                    record({"type": only("A"), "address": IPV4, "ttl": integer(60, 86400)}),
                    record({"type": only("AAAA"), "address": IPV6, "ttl": integer(60, 86400)}),
                    record({"type": only("MX"), "host": HOST, "priority": integer(0, 100)}),
                ),
                1,
                3,
            ),
        }
    ),
    "firewall rule": record(
        {
            "action": choice("allow", "deny"),
            "protocol": choice("tcp", "udp", "icmp"),
            "source": pattern(r"(10|172|192)\.\d{1,3}\.\d{1,3}\.0/(8|16|24)"),
            "ports": any_of(
                only("any"), many(integer(1, 65535), 1, 3), tuple_of(integer(1, 99), integer(100))
            ),
        }
    ),
    "package manifest": record(
        {
            "name": pattern("[a-z][a-z0-9-]{1,20}"),
            "version": VERSION,
            "license": choice("MIT", "Apache-2.0", "BSD-3-Clause"),
            "dependencies": table(pattern(r"[\^~]?\d+\.\d+\.\d+"), "[a-z][a-z-]{1,12}"),
            "private?": FLAG,
        }
    ),
    "pull request": record(
        {
            "number": integer(1, 99999),
            "title": text(50, 5),
            "base": choice("main", "develop"),
            "head": pattern("(feature|fix)/[a-z-]{3,20}"),
            "reviews": many(
                record({"by": text(16), "verdict": choice("approved", "changes", "comment")}), 0, 3
            ),
            "mergeable": maybe(FLAG),
        }
    ),
    "commit": record(
        {
            "id": COMMIT,
            "parents": many(COMMIT, 0, 2),
            "author": record({"name": text(20), "email": EMAIL, "when": MOMENT}),
            "message": text(60, 5),
        }
    ),
    "directory tree": {
        **ref("folder"),
        "$defs": {
            "file": record({"file": text(16, 1), "bytes": integer(0, 1000000)}),
            "folder": record(
                {
                    "folder": text(16, 1),
                    "entries": many(any_of(ref("file"), ref("folder")), 0, 3),
                }
            ),
        },
    },
    "arithmetic expression": {
        **ref("expression"),
        "$defs": {
            "expression": any_of(
                number(-1000, 1000),
                record(
                    {
                        "op": choice("+", "-", "*", "/"),
                        "left": ref("expression"),
                        "right": ref("expression"),
                    }
                ),
            )
        },
    },
    "database table": record(
        {
            "table": pattern("[a-z_]{3,20}"),
            "columns": many(
                record(
                    {
                        "name": pattern("[a-z_]{2,12}"),
                        "type": choice("int", "text", "timestamp", "boolean"),
                        "nullable": FLAG,
                    }
                ),
                1,
                4,
            ),
            "primary_key": many(text(12), 1, 2),
        }
    ),
    "query filter": {
        "anyOf": [
            record({"and": many({"$ref": "#"}, 1, 2)}),
            record({"not": {"$ref": "#"}}),
            record(
                {
                    "field": choice("age", "city", "score"),
                    "op": choice("=", "<", ">"),
                    "value": any_of(number(), text(12)),
                }
            ),
        ]
    },
    "feature flag": record(
        {
            "key": pattern("[a-z]+(-[a-z]+){0,3}"),
            "enabled": FLAG,
            "rollout": multiple(5, 0, 100),
            "variants?": table(integer(0, 100), "[a-c]"),
        }
    ),
    "user account": record(
        {
            "id": UUID,
            "login": pattern("[a-z][a-z0-9._]{2,14}"),
            "roles": many(choice("viewer", "editor", "admin"), 1, 2),
            "last_seen": maybe(MOMENT),
            "mfa": FLAG,
        }
    ),
    "access policy": record(
        {
            "version": only("2024-01-01"),
            "statements": many(
                record(
                    {
                        "effect": choice("allow", "deny"),
                        "actions": many(pattern("[a-z]{2,8}:(read|write|list)"), 1, 2),
                        "resource": any_of(only("*"), pattern("[a-z]+/[a-z0-9]+")),
                    }
                ),
                1,
                2,
            ),
        }
    ),
    "backup job": record(
        {
            "cron": pattern(r"[0-5]?\d ([01]?\d|2[0-3]) \* \* [0-6]"),
            "keep": record({"daily": integer(1, 31), "weekly": integer(0, 52)}),
            "target": LINK,
            "encrypted": only(True),
        }
    ),
    "incident": record(
        {
            "title": text(50, 5),
            "impact": choice("none", "minor", "major", "critical"),
            "timeline": many(record({"at": MOMENT, "note": text(50)}), 1, 3),
            "resolved": maybe(MOMENT),
        }
    ),
    "certificate": record(
        {
            "subject": HOST,
            "names": many(HOST, 1, 2),
            "not_before": DATE,
            "not_after": DATE,
            "key_bits": choice(2048, 3072, 4096),
        }
    ),
    "model training run": record(
        {
            "optimizer": one_of(
                record({"name": only("sgd"), "momentum": between(0, 1)}),
                record({"name": only("adam"), "betas": tuple_of(between(0, 1), between(0, 1))}),
            ),
            "learning_rate": between(0, 1),
            "batch_size": choice(8, 16, 32, 64),
            "losses": many(number(0), 2, 4),
        }
    ),
}
