#!/usr/bin/env python3
"""Writes what an independent decoder reads in real frames: iex.txt, opra.txt, cta.txt.

usage: expected.py DATA DISSECTORS OUT

DATA is a folder with the Open Markets Initiative's sample packets under omi/, DISSECTORS a copy of
its repository wireshark-lua (GPL-3, run as a program of its own, no part of this project), OUT the
folder for the results. Needs tshark. One line per frame (`frame` and its path), per message
(`message`) and per field: its name and the decoder's reading. Names are ours where the decoder has
others; reserved bytes and padding are left out. A byte of flags is read as a number.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SETS = {
    "iex": {
        "Iex/Deep.IexTp.v1.0": "Iex/Iex_IexEquities_Deep_IexTp_v1_06",
        "Iex/DeepPlus.IexTp.1.0.2": "Iex/Iex_IexEquities_DeepPlus_IexTp_v1_04",
        "Iex/Tops.IexTp.v1.5": "Iex/Iex_IexEquities_Tops_IexTp_v1_56",
        "Iex/Tops.IexTp.v1.6": "Iex/Iex_IexEquities_Tops_IexTp_v1_64",
    },
    "opra": {"Siac/Opra.Recipient.v6.2": "Siac/Siac_Opra_Output_Obi_v6_3_a"},
    "cta": {
        "Siac/Cqs.Cta.v1.91": "Siac/Siac_Cqs_Output_Cta_v1_91",
        "Siac/Cqs.Cta.v2.10.a": "Siac/Siac_Cqs_Output_Cta_v2_10_a",
        "Siac/Cts.Cta.v1.91": "Siac/Siac_Cts_Output_Cta_v1_91",
        "Siac/Cts.Cta.v2.9": "Siac/Siac_Cts_Output_Cta_v2_9",
        "Siac/Cts.Cta.v2.10": "Siac/Siac_Cts_Output_Cta_v2_10",
        "Siac/Cts.Cta.v2.11.b": "Siac/Siac_Cts_Output_Cta_v2_11_b",
    },
}
# The capture of several message types repeats the other frames.
LEFT_OUT = {"all_message_types.pcap"}
FRAMING = {"geninfo", "frame", "eth", "ip", "udp"}
DROPPED = re.compile(r"(reserved|blockpadbyte|messageindex|second_?reserved|third_?reserved)")
SAME = {
    "limituplimitdownindicator": "luldindicator",
    "limituplimitdownluldindicator": "luldindicator",
    "bidpricelowerlimitpriceband": "bidprice",
    "offerpriceupperlimitpriceband": "offerprice",
    "bidsizelong": "bidsize",
    "offersizelong": "offersize",
    "securitysymbollong": "securitysymbol",
    "securitysymbolshort": "securitysymbol",
    "securitysymbol5": "securitysymbol",
    "fractionaltotalvolumeshort": "fractionaltotalvolume",
    "initiatingparticipantid": "summaryparticipantid",
    "administrativemessagetype": "messagetype",
    "controlmessagetype": "messagetype",
    "longequityandindexquotemessagetype": "messagetype",
    "shortequityandindexquotemessagetype": "messagetype",
    "quotemessagetype": "messagetype",
    "trademessagetype": "messagetype",
    "summarymessagetype": "messagetype",
    "priordaymessagetype": "messagetype",
    "marketstatusmessagetype": "messagetype",
    "indicesmessagetype": "messagetype",
    "bboindicator": "messageindicator",
    "fractionaltradetotalvolume": "tradetotalvolume",
    "settlementtype": "category1",
    "tradethroughexemptreason": "category2",
    "extendedhoursorsequencetype": "category3",
    "srotradedetail": "category4",
    "salecondition": "salecondition1",
    "totalvolumeshort": "totalvolume",
    "tradeprice2": "tradeprice",
    "tradevolume2": "tradevolume",
    "fractionaltradevolume4": "fractionaltradevolume",
}


def short(name):
    """The last part of a field's name, as we have it."""
    name = name.rsplit(".", 1)[-1]
    return SAME.get(name, name)


def leaves(element, lines):
    """The fields of an element, in their order."""
    for field in element:
        name, size = short(field.get("name", "")), int(field.get("size", "0"))
        if size == 0 or DROPPED.match(name):
            continue
        children = [child for child in field if int(child.get("size", "0")) > 0]
        places = {child.get("pos") for child in children}
        is_flags = places == {field.get("pos")} and int(field.get("size")) == 1
        if name == "message" and children:
            lines.append("message")
        if children and not (is_flags and field.get("value") and len(children) > 1):
            leaves(field, lines)
        elif not children or is_flags:
            shown, value = (field.get("show") or "").strip(), field.get("value", "")
            if is_flags or (not shown and value == "00"):
                shown = str(int(value, 16))
            lines.append(f"{name}\t{shown}".rstrip())


def decoded(frame, dissector):
    """What tshark says of a capture."""
    command = ["tshark", "-r", str(frame), "-X", f"lua_script:{dissector}", "-T", "pdml"]
    text = subprocess.run(command, check=True, capture_output=True).stdout
    lines = []
    for packet in ElementTree.fromstring(text).iter("packet"):
        for protocol in packet.iter("proto"):
            if protocol.get("name") not in FRAMING:
                leaves(protocol, lines)
    return lines


def main():
    data, dissectors, out = map(pathlib.Path, sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        for name, folders in SETS.items():
            lines = []
            for place, dissector in folders.items():
                source = (dissectors / f"{dissector}_Dissector.lua").read_text()
                # OPRA's regular messages have a space as their type, for which this decoder
                # looks as if it were nothing.
                source = source.replace('_message_type == ""', '_message_type == " "')
                script = pathlib.Path(folder) / "dissector.lua"
                script.write_text(source)
                for frame in sorted((data / "omi" / place).glob("*.pcap")):
                    if frame.name not in LEFT_OUT:
                        lines.append(f"frame {place}/{frame.name}")
                        read = decoded(frame, script)
                        if frame.name.startswith("P_E"):
                            # Read from the middle of the time before it, of which the decoder
                            # knows four bytes of eight.
                            read = [it for it in read if not it.startswith("cancelerroraction")]
                        lines += read
            (out / f"{name}.txt").write_text("\n".join(lines) + "\n")


main()
