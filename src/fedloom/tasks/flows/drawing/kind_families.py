"""The family of a node's kind, on every platform: a picture colours cards by it."""

from __future__ import annotations

from functools import cache

FAMILIES = ("start or end", "event", "decision", "data", "action", "screen or message", "AI", "error")
"""All families, in the order of a legend."""

_PLATFORM = {
    "decision": ("If", "Switch", "ForEach"),
    "data": (
        "Assign", "DataSet", "RefreshQuery", "ExcelToRecordList", "RecordListToExcel", "JSONSerialize",
        "JSONDeserialize",
    ),
    "screen or message": (
        "AjaxRefresh", "FeedbackMessage", "WebDestination", "Outcome", "Download", "SendEmail", "AttachEmailContent",
        "Comment",
    ),
    "event": ("TriggerEvent",),
    "error": ("RaiseError", "ErrorHandler"),
    "start or end": ("Start", "End"),
}  # fmt: skip
_N8N = {
    "decision": (
        "if", "switch", "filter", "merge", "splitInBatches", "splitOut", "wait", "noOp", "limit", "removeDuplicates",
        "compareDatasets", "executeWorkflow",
    ),
    "data": (
        "set", "code", "function", "functionItem", "aggregate", "summarize", "sort", "itemLists", "dateTime",
        "convertToFile", "extractFromFile", "spreadsheetFile", "moveBinaryData", "html", "markdown", "xml", "crypto",
        "renameKeys", "readBinaryFile", "readWriteFile", "editImage", "compression",
    ),
    "error": ("stopAndError",),
    "event": ("webhook", "start", "cron", "interval", "formTrigger"),
    "screen or message": (
        "gmail", "emailSend", "slack", "telegram", "discord", "whatsApp", "microsoftOutlook", "microsoftTeams",
        "mattermost", "twilio", "form", "respondToWebhook",
    ),
}  # fmt: skip
_BY_KIND = {kind: family for family, kinds in _PLATFORM.items() for kind in kinds}
_BY_NODE = {kind: family for family, kinds in _N8N.items() for kind in kinds}


@cache
def family(kind: str) -> str:
    """The family of a kind of any dialect; an unknown kind is an action."""
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    element, _, what = kind.partition(":")
    if element.endswith("Event"):
        return "error" if what == "error" else "event"
    if element.endswith("Gateway"):
        return "decision"
    if "langchain" in kind:
        return "event" if kind.endswith("Trigger") else "AI"
    if kind.endswith("Trigger"):
        return "event"
    return _BY_NODE.get(kind.rpartition(".")[2], "action")


def short_kind(kind: str) -> str:
    """A kind without its package: ``httpRequest`` of ``n8n-nodes-base.httpRequest``."""
    return kind.rpartition(".")[2] or kind
