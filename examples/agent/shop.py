"""The shop behind the agent: its orders, and the two tools of the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

ORDERS: dict[str, dict[str, Any]] = {
    "A-1001": {"order_id": "A-1001", "title": "The Left Hand of Darkness", "status": "delivered", "total": 59.9},
    "A-1002": {"order_id": "A-1002", "title": "A Field Guide to Owls", "status": "on its way", "total": 24.5},
    "A-1003": {"order_id": "A-1003", "title": "Bread for Beginners", "status": "in the warehouse", "total": 31.0},
}
SHARE_REFUNDED = {"damaged": 1.0, "late": 0.2, "changed_mind": 0.9}


def look_up_order(order_id: str) -> dict[str, Any]:
    """The shop's record of an order."""
    return ORDERS.get(order_id) or {"error": f"there is no order {order_id}"}


def compute_refund(order_id: str, reason: str) -> dict[str, Any]:
    """The amount that the customer gets back."""
    if order_id not in ORDERS:
        return {"error": f"there is no order {order_id}"}
    amount = round(ORDERS[order_id]["total"] * SHARE_REFUNDED[reason], 2)
    return {"order_id": order_id, "reason": reason, "refund": amount}


FUNCTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "look_up_order": look_up_order,
    "compute_refund": compute_refund,
}


def call_tool(name: str, arguments: str) -> str:
    """Run the tool that the model called; JSON in, JSON out."""
    return json.dumps(FUNCTIONS[name](**json.loads(arguments)))


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": function}


ORDER_ID = {"type": "string", "description": "The number of the order, such as A-1001.", "pattern": "^A-[0-9]{4}$"}
REASON = {"type": "string", "description": "Why the customer wants it.", "enum": list(SHARE_REFUNDED)}

TOOLS: list[Any] = [
    _tool("look_up_order", "Find an order: its title, status and total.", {"order_id": ORDER_ID}),
    _tool("compute_refund", "Compute how much a customer gets back.", {"order_id": ORDER_ID, "reason": REASON}),
]
