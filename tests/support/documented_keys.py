"""Keys in the formats that public rule sets (gitleaks, TruffleHog) and vendors document, as templates.

`{a28}` is 28 letters and digits, `h` hexadecimal digits, `l` lower case, `u` upper case, `w` base64 for URLs, `b`
base64, `d` digits, and `{id}` a UUID. A key is made at random from its template, so that no file holds one.
"""

from __future__ import annotations

import re
import string
from random import Random

from support.fake_secrets import ALNUM, URL_SAFE, draw
from support.secret_shapes import hexadecimal, lower, upper, uuid4

_FORMATS = """
aio_{a28} LTAI{a20} sk-ant-api03-{w93}AA sk-ant-admin01-{w93}AA apify_api_{a36} AKCp{a69} cmVmdGtu{a56}
ATCTT3xFfG{w180}={h8} ATATT3xFfG{w180}={h8} BBDC-{b44} AKIA{u16} ASIA{u16} ABIA{u16} ACCA{u16} ABSK{b109}
bb_pr_{h30} bb_ma_{h30} bkua_{l40} CCIPAT_{a22}_{h40} cfut_{a40}{h8} cfat_{a40}{h8} cfk_{a40}{h8} v1.0-{h24}-{h146}
CFPAT-{w43} dapi{h32} dapi{h32}-2 ddp_{a36} ddw_{a36} dop_v1_{h64} doo_v1_{h64} dor_v1_{h64} dckr_pat_{w27}
dckr_oat_{w32} dp.pt.{a43} dp.ct.{a43} dp.st.dev.{a43} dp.sa.{a43} dp.scim.{a43} dp.audit.{a43} sk_{h48} endr+{a16}
figd_{w40} figp_{w44} figo_{w40} figu_{w40} flb_live_{a20} shltm_{w40} FLWSECK-{h32}-X FLWSECK_TEST-{h32}-X
fo1_{w43} fm2_{b120} fio-u-{w64} na1.{b100} ghp_{a36} gho_{a36} ghu_{a36} ghs_{a36} ghr_{a36} github_pat_{a22}_{a59}
glpat-{w20} glpat-{w27}.01.{l9} gloas-{h64} gldt-{w20} glft-{w20} glffct-{w20} glimt-{w25} glagent-{w50} glptt-{h40}
GR1348941{w20} glrt-{w20} glrtr-{w41} glcbt-{h4}_{w20} glsoat-{w20} live_{a40} AIzaSy{w33} ya29.{w60} glc_eyJ{b100}
glsa_{a32}_{h8} gsk_{a52} HRKU-AA{w58} pat-eu1-{id} pat-na1-{id} hf_{a34} api_org_{s34} s-s4t2ud-{h64}
u-s4t2af-{h64} ico-{a32}
pk_{h34} pk_{a6}_{h34} lsv2_pt_{h32}_{h10} lsv2_sk_{h32}_{h10} api-{id} sdk-{id} lin_api_{a40} live_{h35} test_{h35}
pk.{h32} {h32}-us17 key-{h32} {a6}_{a29}_mmk NRBR-{h19} NRII-{w25} NRIQ-{w25} NRAK-{u27} NF-{a32} ntn_{d11}{a35}
secret_{a43} npm_{a36} nvapi-{w64} sk-or-v1-{h64} ak_live_{a30} pcsk_{a6}_{a63} pscale_tkn_{a43} pscale_pw_{a43}
pscale_oauth_{a43} phx_{a43} PMAK-{h24}-{h34} pnu_{a36} pub-c-{id} sec-c-{id} pul-{h40} ramp_id_{a40} ramp_sec_{a48}
rzp_live_{a14} rdme_{l70} r8_{a37} rh-api-{id} rootly_{h64} rubygems_{h48} salad_cloud_{a6}_{a60}
3MVG9{a85} 5AEP861{a90} SG.{w22}.{w43} xkeysib-{h64}-{a16} sntryu_{h64} shppa_{h32} shpat_{h32} shpca_{h32}
shpss_{h32} xoxb-{d12}-{d12}-{a24} xapp-1-{u10}-{d13}-{h64} sqco_{a59} sgp_{h40} sgp_{h16}_{h40} slk_{h64}
sq0csp-{w43} EAAA{w60}
sk_live_{a40} rk_live_{a40} pi_{a24}_secret_{a25} sbp_{h40} tskey-auth-{a12}-{a32} tskey-client-{a12}-{a32}
{a14}.atlasv1.{a67} thog-key-{h16} thog-secret-{h32} tfp_{a44} BBFF-{a30} VF.DM.{h24}.{a16} xai-{a80}
1000.{h32}.{h32} p8e-{a32} 4b1d{a38} pat.{a22}.{h24}.{a20} sat.{a22}.{h24}.{a20} duffel_live_{w43}
dt0c01.{u24}.{u64} EZAK{a54} EZTK{a54} sha256~{w43} pplx-{a48} tk-us-{w48} sm_aat_{a16} sm_pat_{a16} shippo_live_{h40}
access-sandbox-{id} access-production-{id} pri_{h32} sk_test_{id} AK1{a52} tkn.v1_{a71}= sk_{d4}_{d6}_{h32}
nfp_{a36} ptr_{b43}= u+{w18} KEY{w55} API-{u26} sk-lf-{id} pk-lf-{id} sl.{w140} pat{a14}.{h64}
pdl_live_apikey_01{l24}_{a22}_{a3} hcaik_01{l24}{l32} hcxmk_01{l24} tr_dev_{a20} tr_prod_{a20} tr_pat_{l40}
pylf_v1_us_{a43} signkey-prod-{h64} xaat-{id} xapt-{id} dbtc_{w43} dbtu_{w43}
A3-{u6}-{u11}-{u8} AIK_CI_{a40} AIK_SECRET_{a64} alcht_{a30} STS.{a25} scauth_{l16}.{l8}.acc_{l16}.{a40}
gcntfy-{l12}-{id}-{id} db-{a29} AstraCS:{a24}:{h64} apk_user_{b120} cog_{l52} PRD-{h12}-{h8}-{h8} essu_{b64}
eyJrIjoi{b48} Mid-server-{w24} os_v2_app_{l103} api_live.{a32} api_live_us.{a32} pina_{a32} prf_{a32} ucat_{a30}
unkey_{a28} vtwn_{a38} waka_{id} t1.{a8}.{w86} tfp_{w40}.{w18} figr_{w40} cosmo_{h32} pgar_{a27} sq0idb-{w22}
sandbox-sq0idb-{w22} sandbox_{w40} SUA{u55} TlRMTVNTUAAD{b120} {h32}.{a24} {a32}-us36 {l11}AAAAAAAAAA{l43}
1PRK-{u4}-{u4}-{u4}-{u4}-{u4}-{u4}-{u4}-{u4}-{u4}-{u4}-{u4}-{u4}-{u4} PMAT-{a26} ddo_{a36} FLWSECK_TEST{h12}
packagist_ack_{h30} packagist_acs_{h64} packagist_out_{h68} packagist_uut_{h68} key_{l64} ek_{h32} GOOG1E{u55}
GOOG1E{u18} 00D{a12}!AQ{w90} live_{a27}
NTk3MjQzOTIyNTAwO{b27} 6LfKq2ZdAAAAA{w27} {id}:{h32} AAAAAAAAAAAAAAAAAAAAAM{a92}
"""
TEMPLATES = _FORMATS.split()

_PIECE = re.compile(r"\{(?P<kind>[a-z])(?P<length>\d+)\}|\{id\}")


def make_documented_key(template: str, source: Random) -> str:
    """A key of this format."""
    return _PIECE.sub(lambda match: _make_piece(match["kind"] or "id", int(match["length"] or 0), source), template)


def _make_piece(kind: str, length: int, source: Random) -> str:
    if kind == "id":
        return uuid4(source)
    if kind == "d":
        return "".join(source.choices("23456789", k=length))
    if length < 6:
        return "".join(source.choices("23456789", k=length))
    if kind == "s":
        return "".join(source.choices(string.ascii_letters, k=length))
    if kind in "hlu":
        return {"h": hexadecimal, "l": lower, "u": upper}[kind](source, length)
    return draw(source, length, {"a": ALNUM, "w": URL_SAFE, "b": ALNUM + "+/"}[kind])
