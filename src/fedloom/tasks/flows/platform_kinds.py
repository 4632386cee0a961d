"""The kinds and subkinds of actions on the thesis' platform, and how often they occur.

Table B.1 has the frequency of each kind in percent: mean and standard deviation over the 33 clients. Table B.2 has the
same for subkinds, where three kinds are split further and all others keep their row. Of B.2's 195 rows those above
0.00 % are given by name; the others (0.00 %) are numbered here, so that a model has as many classes as in the thesis. A
deviation is None where it is not reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Frequency(NamedTuple):
    """The frequency of a class in percent: mean and standard deviation over the clients of the thesis."""

    mean: float
    std: float | None = None


START = "Start"
ENDS = ("End", "RaiseError")

NEVER_TARGETS = (START, "Comment", "ErrorHandler")
"""Kinds that are in the table with 0.00 %: they are never predicted."""

KINDS: Mapping[str, Frequency] = MappingProxyType(
    {
        "AjaxRefresh": Frequency(2.86, 2.92),
        "Assign": Frequency(18.33, 4.56),
        "AttachEmailContent": Frequency(0.01, 0.03),
        "Comment": Frequency(0.0, 0.0),
        "DataSet": Frequency(5.58, 2.66),
        "Download": Frequency(0.24, 0.24),
        "End": Frequency(22.93, 3.18),
        "ErrorHandler": Frequency(0.0, 0.0),
        "ExcelToRecordList": Frequency(0.28, 0.46),
        "ExecuteAction": Frequency(15.65, 5.27),
        "ForEach": Frequency(2.07, 1.04),
        "If": Frequency(10.77, 2.28),
        "JSONDeserialize": Frequency(0.13, 0.18),
        "JSONSerialize": Frequency(0.23, 0.36),
        "Outcome": Frequency(0.14, 0.30),
        "RaiseError": Frequency(0.77, 1.36),
        "RecordListToExcel": Frequency(0.13, 0.16),
        "RefreshQuery": Frequency(2.29, 1.59),
        "SendEmail": Frequency(0.10, 0.15),
        "Start": Frequency(0.0, 0.0),
        "Switch": Frequency(0.38, 0.37),
        "WebDestination": Frequency(3.64, 2.86),
        "ExecuteClientAction": Frequency(6.14, 7.02),
        "FeedbackMessage": Frequency(5.60, 2.74),
        "JavascriptNode": Frequency(0.98, 1.15),
        "TriggerEvent": Frequency(0.75, 0.93),
    }
)
"""Table B.1, without the prefixes ``Nodes.`` and ``NRNodes.``."""

TARGETS = tuple(kind for kind in KINDS if kind not in NEVER_TARGETS)
"""The kinds that are predicted."""

SPLIT: Mapping[str, int] = MappingProxyType({"ExecuteAction": 93, "ExecuteClientAction": 68, "If": 11})
"""The kinds that table B.2 splits, with their number of classes there."""

_IF = {
    "Others": Frequency(6.61, 2.30),
    "NotZeroNullOrEmpty": Frequency(1.58, 1.03),
    "Empty": Frequency(1.07, 0.55),
    "ZeroNullOrEmpty": Frequency(0.93, 0.74),
    "Valid": Frequency(0.39, 0.42),
    "NotEmpty": Frequency(0.19, 0.37),
    "NotOthers": Frequency(0.01, 0.01),
}

_ACTION = {
    "Generic": Frequency(8.66, 3.92),
    "EntityActions.CreateOrUpdate": Frequency(0.74, 0.66),
    "EntityActions.Create": Frequency(0.67, 0.69),
    "EntityActions.Delete": Frequency(0.44, 0.40),
    "EntityActions.Update": Frequency(0.41, 0.41),
    "EntityActions.Get": Frequency(0.10),
    "EntityActions.GetForUpdate": Frequency(0.09),
    "System.ListAppend": Frequency(0.85, 0.90),
    "System.ListFilter": Frequency(0.29, 0.34),
    "System.ListClear": Frequency(0.27, 0.34),
    "System.ListAppendAll": Frequency(0.23, 0.26),
    "System.LogMessage": Frequency(0.21, 0.27),
    "System.ListIndexOf": Frequency(0.09),
    "System.ListRemove": Frequency(0.09),
    "System.CommitTransaction": Frequency(0.09),
    "System.ListSort": Frequency(0.08),
    "System.ListAny": Frequency(0.05),
    "System.ListInsert": Frequency(0.05),
    "System.Login": Frequency(0.03),
    "System.SetCurrentLocale": Frequency(0.03),
    "System.ActivityClose": Frequency(0.01),
    "System.GenerateGuid": Frequency(0.01),
    "System.ListDistinct": Frequency(0.01),
    "System.ListDuplicate": Frequency(0.01),
    "System.TenantSwitch": Frequency(0.01),
    "Users.GetUnifiedLoginUrl": Frequency(0.42, 0.55),
    "Users.Logout": Frequency(0.25, 0.26),
    "Users.Login": Frequency(0.24, 0.26),
    "Users.EncryptPassword": Frequency(0.01),
    "RichWidgets.List.Navigation_ResetStartIndex": Frequency(0.34, 0.40),
    "RichWidgets.Popup.Editor_Close": Frequency(0.17, 0.27),
    "RichWidgets.Input.FocusFirstInvalid": Frequency(0.13, 0.17),
    "RichWidgets.Popup.Editor_Notify": Frequency(0.10, 0.15),
    "RichWidgets.AutoComplete_GetIdentifier": Frequency(0.02),
    "Text.String_Split": Frequency(0.09),
    "Text.Regex_Search": Frequency(0.05),
    "Text.String_Join": Frequency(0.04),
    "Text.Regex_Replace": Frequency(0.01),
    "Text.StringBuilder_Append": Frequency(0.01),
    "BinaryData.TextToBinaryData": Frequency(0.03),
    "BinaryData.Base64ToBinary": Frequency(0.01),
    "BinaryData.BinaryDataSize": Frequency(0.01),
    "BinaryData.BinaryDataToText": Frequency(0.01),
    "BinaryData.BinaryToBase64": Frequency(0.01),
    "ardoJSON.JSONSelect": Frequency(0.02),
    "HtmlToPdf.GeneratePDF": Frequency(0.02),
    "HTTPRequestHandler.GetRequestHeader": Frequency(0.02),
    "ardoHTTP.HTTPPost": Frequency(0.01),
    "Charts.DataPoint.Init": Frequency(0.01),
    "HTTPRequestHandler.AddMetaTag": Frequency(0.01),
    "HTTPRequestHandler.GetEntryURL": Frequency(0.01),
    "HTTPRequestHandler.SetRequestTimeout": Frequency(0.01),
    "HTTPRequestHandler.SetStatusCode": Frequency(0.01),
    "PlatformPasswordUtils.ValidatePassword": Frequency(0.01),
    "Xml.AppendChildElement": Frequency(0.01),
    "Zip.AddFile": Frequency(0.01),
}

_CLIENT_ACTION = {
    "Generic": Frequency(4.58, 5.48),
    "System.ListAppend": Frequency(0.43, 0.84),
    "System.ListClear": Frequency(0.20, 0.43),
    "System.ListFilter": Frequency(0.13, 0.28),
    "System.ListAppendAll": Frequency(0.09),
    "System.ListRemove": Frequency(0.07),
    "System.ListIndexOf": Frequency(0.06),
    "System.ListSort": Frequency(0.05),
    "System.LogMessage": Frequency(0.01),
    "EntityActions.DeleteAll": Frequency(0.13, 0.41),
    "EntityActions.CreateOrUpdate": Frequency(0.11, 0.33),
    "EntityActions.CreateOrUpdateAll": Frequency(0.06),
    "EntityActions.Delete": Frequency(0.04),
    "EntityActions.Create": Frequency(0.03),
    "EntityActions.Update": Frequency(0.03),
    "EntityActions.Get": Frequency(0.02),
    "InAppBrowser.Open": Frequency(0.02),
    "InAppBrowser.CheckInAppBrowserPlugin": Frequency(0.01),
}


def _rows() -> dict[str, Frequency]:
    """Table B.2 in the order of table B.1: whole kinds as they are, split kinds by their named and numbered parts."""
    parts = {"ExecuteAction": _ACTION, "ExecuteClientAction": _CLIENT_ACTION, "If": _IF}
    rows: dict[str, Frequency] = {}
    for kind, frequency in KINDS.items():
        if kind not in SPLIT:
            rows[kind] = frequency
            continue
        rows |= {f"{kind}/{part}": own for part, own in parts[kind].items()}
        rows |= {f"{kind}/Rare {i + 1}": Frequency(0.0) for i in range(SPLIT[kind] - len(parts[kind]))}
    return rows


SUBKINDS: Mapping[str, Frequency] = MappingProxyType(_rows())
"""Table B.2: 195 classes, named ``kind`` or ``kind/part``."""


def kind_of(subkind: str) -> str:
    """The kind a subkind belongs to: ``If`` for ``If/Empty``, ``Assign`` for ``Assign``."""
    return subkind.partition("/")[0]
