"""Formats of strings, as patterns for whole strings.

Each describes texts that have the format by its RFC, and perhaps not all of them: months have their
days and years their leaps, a leap second is never said, an address has no comments or quotes.
"""

from __future__ import annotations

_D = "[0-9]"
# Years are from 0001 on: many calendars, Python's among them, have none before.
_YEAR = f"(?:{_D}{{3}}[1-9]|{_D}{{2}}[1-9]0|{_D}[1-9]00|[1-9]000)"
_LEAP = f"(?:{_D}{{2}}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]{_D}|3[01])"
    f"|(?:0[469]|11)-(?:0[1-9]|[12]{_D}|30)|02-(?:0[1-9]|1{_D}|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = f"(?:[01]{_D}|2[0-3]):[0-5]{_D}"
_TIME = rf"{_CLOCK}:[0-5]{_D}(?:\.{_D}{{1,9}})?(?:Z|[+\-]{_CLOCK})"
_PERIOD = (
    f"(?:{_D}+D|{_D}+M(?:{_D}+D)?|{_D}+Y(?:{_D}+M(?:{_D}+D)?)?)",
    f"T(?:{_D}+S|{_D}+M(?:{_D}+S)?|{_D}+H(?:{_D}+M(?:{_D}+S)?)?)",
)
_DURATION = f"P(?:{_PERIOD[0]}(?:{_PERIOD[1]})?|{_PERIOD[1]}|{_D}+W)"
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9]|-[A-Za-z0-9]){0,31}"  # at most 63 characters, no "--"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,2}}"  # at most 253
_ATOM = "[A-Za-z0-9!#$%&'*+/=?\\^_`{|}~\\-]"
_EMAIL = rf"{_ATOM}{{1,20}}(?:\.{_ATOM}{{1,20}}){{0,2}}@{_HOST}"
_OCTET = f"(?:25[0-5]|2[0-4]{_D}|1{_D}{{2}}|[1-9]?{_D})"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H16 = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    [
        f"(?:{_H16}:){{7}}{_H16}",
        *(
            f"(?:{_H16}(?::{_H16}){{0,{left - 1}}})?::(?:{_H16}(?::{_H16}){{0,{6 - left}}})?"
            if left
            else f"::(?:{_H16}(?::{_H16}){{0,6}})?"
            for left in range(7)
        ),
        f"{_H16}(?::{_H16}){{0,6}}::",
    ]
)
_HEX = "[0-9A-Fa-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_PCHAR = rf"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%{_HEX}{{2}})"
_PATH = f"(?:/{_PCHAR}*)*"
_TAIL = rf"(?:\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_AUTHORITY = rf"//(?:[A-Za-z0-9\-._~]|%{_HEX}{{2}})+(?::{_D}{{1,5}})?{_PATH}"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*"
_URI = f"{_SCHEME}:(?:{_AUTHORITY}|/?{_PCHAR}+{_PATH}){_TAIL}"
_SEGMENT = f"(?:[A-Za-z0-9\\-._~]|%{_HEX}{{2}})+"
_RELATIVE = rf"(?:{_AUTHORITY}|/(?:{_PCHAR}+{_PATH})?|(?:{_SEGMENT}{_PATH})?)"
BASE64 = "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_VARIABLE = rf"(?:[A-Za-z0-9_]|%{_HEX}{{2}})"
_VARSPEC = rf"{_VARIABLE}(?:\.?{_VARIABLE})*(?:\*|:[1-9]{_D}{{0,3}})?"
_TEMPLATE = (
    rf"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&()*+,;=]|%{_HEX}{{2}}"
    rf"|\{{[+#./;?&]?{_VARSPEC}(?:,{_VARSPEC})*\}})*"
)
# Regular expressions on which engines agree, without groups in groups.
_CHARACTER = r"[^\\()\[\]{}*+?|^$\n\r\u2028\u2029]"  # with the dot
_ESCAPE = r"\\[dDwWsStnrfv.*+?()\[\]{}|^$\\/]"
_MEMBER = rf"(?:a-z|A-Z|0-9|[A-Za-z0-9_ ,:;=!@#%<>./+*?(){{}}$]|{_ESCAPE})"
_TIMES = rf"(?:[*+?]|\{{{_D}{{1,3}},?\}})\??"
_ITEM = rf"(?:(?:{_CHARACTER}|{_ESCAPE}|\[\^?{_MEMBER}+\])(?:{_TIMES})?|\\[bB])"
_FLAT = rf"\^?{_ITEM}*\$?"
_GROUP = rf"\((?:\?:)?{_FLAT}(?:\|{_FLAT})*\)(?:{_TIMES})?"
_SEQUENCE = rf"\^?(?:{_ITEM}|{_GROUP})*\$?"

FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": _DURATION,
    "email": _EMAIL,
    "idn-email": _EMAIL,
    "hostname": _HOST,
    "idn-hostname": _HOST,
    "ipv4": _IPV4,
    "ipv6": _IPV6,
    "uuid": _UUID,
    "uri": _URI,
    "iri": _URI,
    "uri-reference": f"(?:{_URI}|{_RELATIVE}{_TAIL})",
    "iri-reference": f"(?:{_URI}|{_RELATIVE}{_TAIL})",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9]{_D}*)(?:#|{_POINTER})",
    "byte": BASE64,
    "uri-template": _TEMPLATE,
    "regex": rf"{_SEQUENCE}(?:\|{_SEQUENCE})*",
}

# Of numbers. What does not fit them is out of the bounds here.
INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**53), 2**53),  # doubles count no further one by one
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**53),
}
