"""The keys that a vendor marks with a prefix: a table of prefix, alphabet and length.

In: nothing. Out: detectors, one for each edge that a key may have. Never: a prefix that real ids of model providers
use (`resp_`, `msg_`, `call_`, `chatcmpl-`, `toolu_`, `file-`).

Each row says where at least one of its prefixes is known from: "own" (our keys), "vendor" (a page of the vendor
names it), "rules" (the public rule set of gitleaks or TruffleHog has it) or "unverified" (no such source was read). A
row of any source needs a whole prefix at an edge, its length, and text that was generated (`is_key_text`). Prefixes
that begin ordinary names as well (`up_` of Upstage, `BSA` of Brave Search, `sk` of Sanity) are left out: the names
beside those keys show them.

Lengths are a little wider than what is known, because vendors make their keys longer without notice. Issuers with a
type of their own (OpenAI, GitHub, Slack, …) are in `key_detectors`.
"""

from __future__ import annotations

import re
from string import ascii_letters
from typing import NamedTuple

from traceforge.redact.detector import EDGE, RUN_EDGE, ByteRange, Detector, after_edge, is_inside_base64
from traceforge.redact.lazy_pattern import LazyPattern
from traceforge.redact.plausibility import count_digits, is_placeholder, longest_alphanumeric_run

_ALPHABETS = {
    "hex": "[0-9a-fA-F]",
    "upper": "[A-Z0-9]",
    "lower": "[a-z0-9]",
    "alnum": "[A-Za-z0-9]",
    "word": "[A-Za-z0-9_]",
    "base64": "[A-Za-z0-9+/=]",
    "url": "[A-Za-z0-9_-]",  # base64 for URLs
    "dots": "[A-Za-z0-9_.=-]",  # several parts of it
    "uuid": "[0-9a-fA-F-]",
}
_OPEN_ALPHABETS = frozenset({"url", "dots", "uuid"})  # They hold `-` or `.`, so a key of them starts once in a run.
_ANCHOR_BYTES = 10  # of the key after its prefix, that the scan over all detectors looks at
_OPEN_ANCHOR_BYTES = 5  # the same for an open alphabet: few texts have such a prefix at the start of a run
_INDEX_BYTES = 2  # of a prefix: no prefix is shorter


SOURCES = frozenset({"own", "vendor", "rules", "unverified"})


class VendorKey(NamedTuple):
    """A kind of key: its issuer, the prefixes, the alphabet and length of the rest, and where that is known from."""

    issuer: str
    prefixes: str  # separated by spaces
    alphabet: str
    shortest: int
    longest: int
    source: str  # of SOURCES


def _row(
    issuer: str, prefixes: str, alphabet: str, shortest: int, longest: int, source: str = "unverified"
) -> VendorKey:
    return VendorKey(issuer, prefixes, alphabet, shortest, longest, source)


VENDOR_KEYS = (
    _row("TraceForge", "tf_live_ tf_test_", "url", 32, 64, "own"),
    # Models, and the tools around them
    _row("Pinecone", "pcsk_", "url", 40, 128, "rules"),
    _row("Cerebras", "csk-", "alnum", 32, 80),
    _row("Fireworks", "fw_", "alnum", 20, 64),
    _row("ElevenLabs", "sk_", "hex", 32, 64, "rules"),
    _row("xAI", "xai-", "url", 60, 160, "rules"),
    _row("Voyage", "pa-", "url", 40, 64),
    _row("Jina", "jina_", "alnum", 40, 80),
    _row("Firecrawl", "fc-", "hex", 32, 32),
    _row("E2B", "e2b_", "hex", 40, 64),
    _row("Modal", "ak- as-", "alnum", 22, 22),
    _row("Together", "tgp_v1_", "url", 40, 64),
    _row("LangSmith", "ls__", "hex", 32, 32),
    _row("Langfuse", "pk-lf- sk-lf-", "uuid", 36, 36, "rules"),
    _row("Helicone", "pk-helicone- sk-helicone-", "url", 24, 64),
    _row("Weights & Biases", "wandb_v1_", "url", 40, 128),
    _row("LlamaCloud", "llx-", "alnum", 40, 64),
    _row("RunPod", "rpa_ rps_", "alnum", 32, 64),
    _row("Anyscale", "esecret_", "alnum", 24, 64),
    _row("NVIDIA", "nvapi-", "url", 40, 128, "rules"),
    _row("Apify", "apify_api_", "alnum", 32, 64, "rules"),
    _row("Browserbase", "bb_live_ bb_test_", "url", 20, 64),
    _row("Cartesia", "sk_car_", "alnum", 20, 64),
    _row("Cursor", "key_", "hex", 60, 68),
    _row("Sourcegraph", "sgp_ sgp_local_ sgd_ slk_", "word", 40, 72, "rules"),
    _row("Voiceflow", "VF.DM. VF.WS.", "dots", 40, 48, "rules"),
    _row("Scrapfly", "scp-live- scp-test-", "hex", 32, 32),
    _row("Graphite of Grafana", "eyJrIjoi", "base64", 60, 400, "rules"),
    _row("Logfire", "pylf_v1_us_ pylf_v1_eu_ pylf_v2_us_ pylf_v2_eu_", "alnum", 36, 64, "rules"),
    # Clouds, containers and deployment
    _row("Deno", "ddp_ ddw_", "alnum", 36, 36, "rules"),
    _row("Harness", "pat. sat.", "dots", 66, 70, "rules"),
    _row("SaladCloud", "salad_cloud_", "word", 20, 240, "rules"),
    _row("Portainer", "ptr_", "base64", 40, 60, "rules"),
    _row("ClickHouse Cloud", "4b1d", "alnum", 38, 38, "rules"),
    _row("dbt", "dbtc_ dbtu_ dbts_", "url", 40, 64),
    _row("Inngest", "signkey-prod- signkey-test- signkey-branch-", "hex", 32, 64, "vendor"),
    _row("Trigger.dev", "tr_dev_ tr_prod_ tr_stg_ tr_preview_", "word", 20, 64, "vendor"),
    _row("HashiCorp Vault", "hvs. hvb. hvr.", "url", 24, 400, "rules"),
    _row("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", "hex", 64, 64, "rules"),
    _row("Docker", "dckr_pat_ dckr_oat_", "url", 24, 48, "rules"),
    _row("Doppler", "dp.pt. dp.ct. dp.sa. dp.scim. dp.audit. dp.said.", "alnum", 40, 48, "rules"),
    _row("Doppler", "dp.st.", "dots", 40, 80, "rules"),
    _row("Databricks", "dkea dose", "hex", 32, 40),
    _row("Supabase", "sbp_ sbp_oauth_", "hex", 40, 64, "rules"),
    _row("Supabase", "sb_secret_", "url", 20, 64),
    _row("Fly.io", "fo1_", "url", 40, 64, "rules"),
    _row("Fly.io", "fm1r_ fm1a_ fm2_", "base64", 80, 4096, "rules"),
    _row("Heroku", "HRKU-", "url", 36, 80, "rules"),
    _row("Vercel", "vcp_ vci_ vca_ vcr_ vck_", "alnum", 24, 80, "vendor"),
    _row("Vercel", "vercel_blob_rw_", "word", 24, 80),
    _row("Netlify", "nfp_ nfc_ nfo_ nfu_", "alnum", 32, 64, "rules"),
    _row("Cloudflare", "v1.0-", "uuid", 120, 256, "rules"),
    _row("Cloudflare", "cfut_ cfat_ cfk_", "alnum", 40, 64, "vendor"),
    _row("PlanetScale", "pscale_tkn_ pscale_pw_ pscale_oauth_", "dots", 32, 64, "rules"),
    _row("Neon", "napi_", "alnum", 40, 80),
    _row("Alibaba Cloud", "LTAI", "alnum", 12, 28, "rules"),
    _row("Tencent Cloud", "AKID", "alnum", 32, 32),
    _row("Yandex Cloud", "AQVN", "url", 34, 40, "rules"),
    _row("Yandex Cloud", "t1.9eu", "dots", 80, 400),
    _row("AWS session", "FwoGZXIvYXdz IQoJb3JpZ2lu", "base64", 80, 4096),
    _row("Google", "1//0", "url", 40, 200),
    _row("OpenShift", "sha256~", "url", 43, 43, "rules"),
    _row("Pulumi", "pul-", "lower", 40, 40, "rules"),
    _row("Prefect", "pnu_ pnb_", "alnum", 36, 36, "rules"),
    _row("Tailscale", "tskey-api- tskey-auth- tskey-client- tskey-scim- tskey-webhook-", "url", 20, 80, "rules"),
    _row("Scalingo", "tk-us-", "url", 48, 48, "rules"),
    _row("Octopus", "API-", "upper", 26, 40, "rules"),
    _row("Dynatrace", "dt0c01. dt0s01. dt0s02.", "dots", 60, 120, "rules"),
    _row("1Password", "ops_eyJ", "base64", 250, 8192, "rules"),
    _row("age", "AGE-SECRET-KEY-1", "upper", 58, 58, "rules"),
    _row("MongoDB Atlas", "mdb_sa_sk_", "url", 36, 48),
    # Code, packages and continuous integration
    _row("Atlassian", "ATATT3 ATCTT3 ATSTT3", "dots", 60, 300, "rules"),
    _row("Atlassian", "ATBB", "alnum", 24, 40, "rules"),
    _row("RubyGems", "rubygems_", "lower", 42, 48, "rules"),
    _row("PyPI", "pypi-A", "url", 50, 512, "rules"),
    _row("crates.io", "cio", "alnum", 32, 32),
    _row("NuGet", "oy2", "lower", 43, 43),
    _row("Clojars", "CLOJARS_", "alnum", 60, 60, "rules"),
    _row("JFrog", "AKCp", "alnum", 64, 76, "rules"),
    _row("JFrog", "cmVmd", "alnum", 59, 59, "rules"),
    _row("Buildkite", "bkua_ bkct_", "alnum", 36, 48, "rules"),
    _row("CircleCI", "CCIPAT_ CCIPRJ_", "word", 40, 80, "rules"),
    _row("SonarQube", "sqp_ squ_ sqa_", "hex", 40, 40, "rules"),
    _row("Snyk", "snyk_uat. snyk_sat.", "dots", 40, 120),
    _row("Dependency-Track", "odt_", "alnum", 32, 48),
    _row("Infracost", "ico-", "alnum", 32, 32, "rules"),
    _row("ReadMe", "rdme_", "lower", 60, 80, "rules"),
    _row("Bitbucket Data Center", "BBDC-", "base64", 40, 50, "rules"),
    _row("SonarQube Cloud", "sqco_", "alnum", 59, 59, "rules"),
    _row("Endor Labs", "endr+", "alnum", 16, 16, "rules"),
    _row("TruffleHog", "thog-key- thog-secret-", "hex", 16, 32, "rules"),
    _row("42", "s-s4t2ud- s-s4t2af- u-s4t2ud- u-s4t2af-", "hex", 64, 64, "rules"),
    # Work, design and support
    _row("Adobe", "p8e-", "alnum", 32, 32, "rules"),
    _row("Bannerbear", "bb_pr_ bb_ma_", "hex", 30, 32, "rules"),
    _row("Salesforce", "3MVG9 5AEP861", "dots", 80, 251, "rules"),
    _row("Zoho", "1000.", "dots", 65, 65, "rules"),
    _row("Teamwork", "tkn.v1_", "base64", 71, 73, "rules"),
    _row("Ticket Tailor", "sk_", "word", 44, 44, "rules"),
    _row("PagerDuty", "u+", "url", 18, 18, "rules"),
    _row("Rootly", "rootly_", "hex", 64, 64, "rules"),
    _row("Notion", "ntn_ secret_", "alnum", 40, 56, "rules"),
    _row("Linear", "lin_api_ lin_oauth_", "alnum", 32, 80, "rules"),
    _row("Figma", "figd_ figo_ figu_ figoh_ figp_", "url", 36, 64, "rules"),
    _row("Postman", "PMAK-", "uuid", 56, 64, "rules"),
    _row("Contentful", "CFPAT-", "url", 40, 64, "rules"),
    _row("Typeform", "tfp_", "url", 40, 64, "rules"),
    _row("HubSpot", "pat-na1- pat-na2- pat-na3- pat-eu1- pat-ap1-", "uuid", 36, 36, "rules"),
    _row("Frame.io", "fio-u-", "url", 60, 72, "rules"),
    _row("Ionic", "ion_", "alnum", 40, 44),
    _row("Telnyx", "KEY", "url", 55, 60, "rules"),
    _row("LaunchDarkly", "sdk- mob- api-", "uuid", 36, 36, "rules"),
    # Metrics and logs
    _row("New Relic", "NRAK- NRAA- NRRA- NRBR- NRJS-", "alnum", 18, 36, "rules"),
    _row("New Relic", "NRII- NRIQ-", "url", 25, 36, "rules"),
    _row("New Relic Pixie", "px-api- px-dep-", "uuid", 36, 36),
    _row("Grafana", "glsa_", "word", 40, 44, "rules"),
    _row("Grafana", "glc_", "base64", 32, 400, "rules"),
    _row("Sentry", "sntryu_ sntrya_", "hex", 64, 64, "rules"),
    _row("Sentry", "sntrys_", "dots", 60, 600, "rules"),
    _row("Sentry", "sntrys_eyJ", "base64", 60, 600, "rules"),
    _row("PostHog", "phx_ phs_ phc_ pha_ phr_", "url", 32, 64, "rules"),
    _row("Adafruit", "aio_", "alnum", 28, 28, "rules"),
    _row("Honeycomb", "hcaik_ hcbik_ hcxik_ hcamk_ hcbmk_ hcxmk_", "lower", 26, 64, "vendor"),
    _row("Axiom", "xaat- xapt-", "uuid", 36, 36),
    _row("FullStory", "na1.", "base64", 100, 100, "rules"),
    _row("Nightfall", "NF-", "alnum", 32, 32, "rules"),
    _row("Ubidots", "BBFF-", "alnum", 30, 30, "rules"),
    _row("EcoStruxure", "AK1", "base64", 50, 55, "rules"),
    # Money, shops and mail
    _row("Stripe", "pi_", "word", 57, 57, "rules"),
    _row("Checkout.com", "sk_ sk_test_ sk_sbox_", "uuid", 36, 36, "rules"),
    _row("Klaviyo", "pk_", "word", 34, 41, "rules"),
    _row("Chec", "pk_ sk_", "lower", 45, 45, "rules"),
    _row("IEX Cloud", "sk_", "lower", 32, 32, "rules"),
    _row("Lob", "live_ test_", "hex", 35, 35, "rules"),
    _row("Ramp", "ramp_id_ ramp_sec_", "alnum", 40, 48, "rules"),
    _row("Robinhood", "rh-api-", "uuid", 36, 36, "rules"),
    _row("Fleetbase", "flb_live_", "alnum", 20, 20, "rules"),
    _row("Flexport", "shltm_", "url", 40, 40, "rules"),
    _row("Shopify", "shpat_ shpca_ shppa_ shpss_ shprt_ shpua_ shptka_ shpit_", "hex", 32, 64, "rules"),
    _row("Square", "sq0atp- sq0csp- sq0idp-", "url", 22, 64, "rules"),
    _row("Square", "EAAA", "url", 56, 64, "rules"),
    _row("Adyen", "AQE", "base64", 90, 400),
    _row("Facebook", "EAACEdEose0cBA", "alnum", 20, 400, "rules"),
    _row("Facebook", "EAAC EAAB EAAG EAAD EAAI EAAM", "alnum", 100, 400, "rules"),
    _row("PayPal", "access_token$production$ access_token$sandbox$", "word", 40, 60),
    _row("Razorpay", "rzp_live_ rzp_test_", "alnum", 14, 24, "rules"),
    _row("Flutterwave", "FLWSECK- FLWSECK_TEST-", "url", 30, 48, "rules"),
    _row("Shippo", "shippo_live_ shippo_test_", "hex", 40, 40, "rules"),
    _row("EasyPost", "EZAK EZTK", "alnum", 54, 54, "rules"),
    _row("Duffel", "duffel_live_ duffel_test_", "dots", 40, 48, "rules"),
    _row("Plaid", "access-sandbox- access-development- access-production-", "uuid", 36, 36, "rules"),
    _row("Brevo", "xkeysib- xsmtpsib-", "url", 60, 96, "rules"),
    _row("Mailgun", "key- pubkey-", "lower", 32, 32, "rules"),
    _row("Salesblink", "key-", "alnum", 64, 64, "rules"),
    _row("Resend", "re_", "word", 28, 40),
    _row("Twilio", "SK", "hex", 32, 32, "rules"),
    _row("SettleMint", "sm_aat_ sm_pat_ sm_sat_", "alnum", 16, 40, "rules"),
    # Files, maps and chat
    _row("LocationIQ", "pk.", "hex", 32, 32, "rules"),
    _row("BestTime", "pri_", "hex", 32, 32, "rules"),
    _row("PubNub", "pub-c- sub-c- sec-c-", "uuid", 36, 36, "rules"),
    _row("Airtable", "pat", "dots", 79, 79, "rules"),
    _row("Dropbox", "sl.", "dots", 120, 2000, "rules"),
    _row("Mapbox", "sk.eyJ tk.eyJ pk.eyJ", "dots", 60, 200, "rules"),
    _row("Discord", "mfa.", "url", 80, 100),
    _row("Coze", "pat_ sat_", "alnum", 60, 80),
    _row("Twitch", "live_", "word", 36, 48),
)  # fmt: skip

# A key in the manner of many vendors: a short name, the environment or the kind of key, and random text.
_MIDDLE = rb"[-_](?:live|prod|sandbox|sk|pat|tkn|apikey|api[-_]key|secret|private|token)[-_]"
_MANNER = LazyPattern(
    rb"(?P<name>[A-Za-z][A-Za-z0-9]{1,11}(?:[-_][A-Za-z0-9]{2,8})?)" + _MIDDLE + rb"[A-Za-z0-9_-]{20,200}"
)
_NAME_BYTES = 22  # one more than the longest name
_PROVIDER_ID = LazyPattern(
    rb"(?:resp|msg|call|chatcmpl|toolu|file|run|thread|asst|batch|gen|item|rs|fc|ws|next|page)(?:[-_]|\Z)"
)


def is_key_text(value: bytes) -> bool:
    """Whether what follows a prefix was generated: several digits among letters, and no placeholder."""
    if is_placeholder(value) or len(set(value)) < 8:
        return False
    return count_digits(value) >= 2 or (len(value) >= 32 and _has_both_cases(value))


def _has_both_cases(value: bytes) -> bool:
    return value != value.lower() and value != value.upper()


def _expression(row: VendorKey, prefix: str) -> str:
    alphabet = _ALPHABETS[row.alphabet]
    # The last character is no separator, so that a full stop after the key is not a part of it.
    last = "[A-Za-z0-9_=-]" if row.alphabet in _OPEN_ALPHABETS else alphabet
    body = f"{alphabet}{{{row.shortest - 1},{row.longest - 1}}}{last}"
    return re.escape(prefix) + body + r"(?![A-Za-z0-9_])"


def _anchor(rows: list[tuple[VendorKey, str]]) -> str:
    """All prefixes. What follows them is written once for each alphabet: the scan would have a copy for each row."""
    prefixes: dict[str, set[str]] = {}
    for row, prefix in rows:
        looked_at = _OPEN_ANCHOR_BYTES if row.alphabet in _OPEN_ALPHABETS else _ANCHOR_BYTES
        suffix = f"{_ALPHABETS[row.alphabet]}{{{min(row.shortest, looked_at)}}}"
        prefixes.setdefault(suffix, set()).add(re.escape(prefix))
    return "|".join(f"(?:{'|'.join(sorted(names))}){suffix}" for suffix, names in prefixes.items())


def _table_detector(edge: bytes, rows: list[tuple[VendorKey, str]]) -> Detector:
    """One detector for many kinds of key: the scan looks for all prefixes at once, the exact check for one."""
    exact: dict[bytes, list[tuple[bytes, LazyPattern[bytes]]]] = {}  # by the first characters of the prefix
    for row, prefix in sorted(rows, key=lambda item: -len(item[1])):  # The longer first: `sk_car_` before `sk_`.
        pattern = LazyPattern(_expression(row, prefix).encode())
        exact.setdefault(prefix[:_INDEX_BYTES].encode(), []).append((prefix.encode(), pattern))

    def locate(text: bytes, start: int, _: int) -> ByteRange | None:
        first = after_edge(text, start)
        for prefix, pattern in exact.get(text[first : first + _INDEX_BYTES], ()):
            match = pattern.match(text, first) if text.startswith(prefix, first) else None
            if match is not None:
                return match.span() if is_key_text(match[0]) and not is_inside_base64(text, first) else None
        return None

    return Detector("API_KEY", _anchor(rows).encode(), locate, edge)


def _manner(text: bytes, start: int, _: int) -> ByteRange | None:
    """`acme_live_9f86d081…`: a key in the manner of many vendors."""
    before = text[max(0, start - _NAME_BYTES) : start]
    first = start - len(before) + len(before.rstrip(b"-_0123456789" + ascii_letters.encode()))
    if 0 < first == start - _NAME_BYTES:
        return None  # The run goes on before: base64.
    match = _MANNER.match(text, first)
    if match is None or match.end("name") != start or _PROVIDER_ID.match(match["name"]):
        return None
    value = match[0][start - first :]
    is_random = longest_alphanumeric_run(value) >= 20 and count_digits(value) >= 3 and is_key_text(value)
    return match.span() if is_random else None


def _split_rows() -> tuple[list[tuple[VendorKey, str]], list[tuple[VendorKey, str]]]:
    every = [(row, prefix) for row in VENDOR_KEYS for prefix in row.prefixes.split()]
    return (
        [item for item in every if item[0].alphabet not in _OPEN_ALPHABETS],
        [item for item in every if item[0].alphabet in _OPEN_ALPHABETS],
    )


_CLOSED, _OPEN = _split_rows()
_MANNER_DETECTOR = Detector("API_KEY", _MIDDLE + rb"[A-Za-z0-9_-]{20}", _manner)
DETECTORS = (_table_detector(EDGE, _CLOSED), _table_detector(RUN_EDGE, _OPEN), _MANNER_DETECTOR)
