"""What shops, banks and insurers send."""

from __future__ import annotations

from schemas.parts import (
    DATE,
    EMAIL,
    FLAG,
    LINK,
    MOMENT,
    THIS,
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

CURRENCY = choice("EUR", "USD", "GBP", "JPY", "CHF")
MONEY = record({"amount": number(0, 100000), "currency": CURRENCY})
SKU = pattern(r"[A-Z]{3}-\d{4}")

SCHEMAS: dict[str, Schema] = {
    "invoice": record(
        {
            "number": pattern(r"INV-\d{6}"),
            "issued": DATE,
            "customer": record({"name": text(30, 1), "vat_id?": pattern(r"[A-Z]{2}\d{9}")}),
            "lines": many(
                record({"item": text(24), "quantity": integer(1, 500), "price": number(0, 9999)}),
                1,
                3,
            ),
            "currency": CURRENCY,
            "paid": FLAG,
        }
    ),
    "credit note": record(
        {
            "invoice": pattern(r"INV-\d{6}"),
            "reason": choice("returned", "damaged", "overcharged", "goodwill"),
            "refund": MONEY,
            "comment": maybe(text(60)),
        }
    ),
    "shopping cart": record(
        {
            "id": UUID,
            "items": many(record({"sku": SKU, "count": integer(1, 99)}), 0, 4),
            "coupon?": pattern("[A-Z0-9]{6,10}"),
            "totals": record({"net": number(0), "tax": number(0), "gross": number(0)}),
        }
    ),
    "product": record(
        {
            "sku": SKU,
            "title": text(40, 3),
            "price_cents": integer(1, 9_999_999),
            "stock": integer(0, 10000),
            "attributes": table(any_of(text(16), number()), "[a-z]{3,12}"),
            "discontinued": FLAG,
        }
    ),
    "product review": record(
        {
            "stars": integer(1, 5),
            "headline": text(50),
            "body?": text(120),
            "verified": FLAG,
            "votes": record({"up": integer(0), "down": integer(0)}),
        }
    ),
    "category tree": record(
        {
            "name": text(16, 1),
            "slug": pattern("[a-z]+(-[a-z]+){0,2}"),
            "children": many(THIS, 0, 2),
        }
    ),
    "payment": record(
        {
            "id": pattern("pay_[a-z0-9]{8}"),
            "amount": MONEY,
            "method": one_of(
                record(
                    {
                        "type": only("card"),
                        "last4": pattern(r"\d{4}"),
                        "brand": choice("visa", "mastercard", "amex"),
                    }
                ),
                record({"type": only("sepa"), "iban": pattern(r"DE\d{20}")}),
                record({"type": only("cash"), "till": integer(1, 20)}),
            ),
            "status": choice("authorised", "captured", "failed"),
        }
    ),
    "refund request": record(
        {
            "order": integer(100000, 999999),
            "lines": many(integer(1, 20), 1, 5),
            "reason": text(80, 5),
            "to": choice("card", "voucher"),
        }
    ),
    "subscription": record(
        {
            "plan": choice("free", "starter", "team", "enterprise"),
            "seats": integer(1, 1000),
            "renews": maybe(DATE),
            "trial": maybe(record({"days": choice(7, 14, 30), "used": integer(0, 30)})),
        }
    ),
    "exchange rates": record(
        {
            "base": CURRENCY,
            "as_of": MOMENT,
            "rates": record({"USD": between(0, 200), "GBP": between(0, 200)}),
        }
    ),
    "bank transfer": record(
        {
            "from": pattern(r"[A-Z]{2}\d{16}"),
            "to": pattern(r"[A-Z]{2}\d{16}"),
            "amount": pattern(r"\d{1,6}\.\d{2}"),
            "reference?": text(35),
            "execute_on": any_of(DATE, only("now")),
        }
    ),
    "account statement": record(
        {
            "opening": number(-100000, 100000),
            "closing": number(-100000, 100000),
            "entries": many(
                record({"on": DATE, "amount": number(-5000, 5000), "text": text(24)}), 1, 3
            ),
        }
    ),
    "loan offer": record(
        {
            "principal": multiple(500, 1000, 50000),
            "months": choice(12, 24, 36, 48, 60),
            "annual_rate": between(0, 0.25),
            "conditions": many(text(40), 0, 3),
        }
    ),
    "insurance claim": record(
        {
            "policy": pattern(r"[A-Z]{2}\d{7}"),
            "kind": choice("theft", "fire", "water", "glass"),
            "happened": MOMENT,
            "estimate": number(0, 1000000),
            "witnesses?": many(record({"name": text(24), "phone?": pattern(r"\+\d{8,13}")}), 0, 2),
        }
    ),
    "price rule": {
        "$defs": {
            "condition": one_of(
                record({"field": choice("country", "quantity"), "equals": text(12)}),
                record({"all": many(ref("condition"), 1, 2)}),
            )
        },
        **record(
            {"name": text(20), "when": ref("condition"), "percent_off": integer(1, 90)},
        ),
    },
    "gift card": record(
        {
            "code": pattern("[A-Z0-9]{4}(-[A-Z0-9]{4}){3}"),
            "balance": number(0, 500),
            "recipient": record({"email": EMAIL, "message?": text(60)}),
            "expires": DATE,
        }
    ),
    "stock level": record(
        {
            "sku": SKU,
            "warehouses": table(integer(0, 5000), r"W\d{2}"),
            "incoming?": many(record({"eta": DATE, "units": integer(1)}), 0, 2),
        }
    ),
    "tax table": record(
        {
            "country": choice("DE", "FR", "AT", "IT"),
            "bands": many(tuple_of(integer(0, 500000), number(0, 0.6)), 2, 4),
        }
    ),
    "auction bid": record(
        {
            "lot": integer(1, 2000),
            "bidder": pattern(r"B\d{5}"),
            "offer": number(1, 1e7),
            "proxy": FLAG,
            "placed": MOMENT,
        }
    ),
    "return label": record(
        {
            "carrier": choice("dhl", "ups", "gls"),
            "tracking": pattern("[0-9A-Z]{12}"),
            "weight_kg": between(0, 31.5),
            "url": LINK,
        }
    ),
    "loyalty account": record(
        {
            "tier": choice("bronze", "silver", "gold"),
            "points": integer(0, 1000000),
            "history": many(record({"delta": integer(-5000, 5000), "why": text(24)}), 0, 3),
        }
    ),
    "expense report": record(
        {
            "employee": text(24, 2),
            "period": pattern(r"20\d{2}-(0[1-9]|1[0-2])"),
            "items": many(
                record(
                    {
                        "category": choice("travel", "meal", "hotel", "other"),
                        "cost": number(0, 3000),
                        "receipt": FLAG,
                    }
                ),
                1,
                3,
            ),
            "approved_by": maybe(text(24)),
        }
    ),
    "purchase order": {
        **record(
            {
                "po": integer(1),
                "supplier": ref("company"),
                "ship_to": ref("address"),
                "lines": many(record({"part": text(12), "qty": integer(1, 10000)}), 1, 2),
            }
        ),
        "$defs": {
            "company": record({"name": text(24), "address": ref("address")}),
            "address": record({"street": text(24), "city": text(16), "zip": pattern(r"\d{5}")}),
        },
    },
    "checkout error": record(
        {
            "error": record(
                {
                    "code": choice("card_declined", "expired", "fraud", "timeout"),
                    "message": text(80),
                    "retry": FLAG,
                }
            )
        }
    ),
    "donation": record(
        {
            "donor": any_of(only("anonymous"), record({"name": text(24), "email": EMAIL})),
            "amount": number(1, 10000),
            "every": choice("once", "month", "year"),
        }
    ),
}
