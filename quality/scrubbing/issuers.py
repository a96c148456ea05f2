"""Forms of the keys and tokens of known issuers: a beginning, which is kept to show the type, and the secret after it.

The forms are documented by issuers or published by secret scanners (gitleaks, GitHub, detect-secrets). The form alone
decides, even for letters only; the value is not judged.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trajmill.quality.scrubbing.kinds import Kind


class Form(NamedTuple):
    """Form of a key or token.

    Attributes:
        kind: Kind of the find.
        stays: Pattern of the beginning, which is kept.
        secret: Pattern of the replaced part.
    """

    kind: Kind
    stays: bytes
    secret: bytes


_UUID: Final = rb"[0-9A-Za-z]{8}(?:-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}"
_CUT: Final = rb"\\{0,2}\$"
"""Separator of the parts of a crypt(5) hash, with the backslashes that a shell needs."""

BY_BEGINNING: Final = tuple(
    Form(*row)
    for row in (
        ("cloud_key", rb"A(?:KIA|SIA|ROA|IDA|BIA|CCA)", rb"[A-Z0-9]{16}"),
        ("cloud_key", rb"A3T[A-Z0-9]", rb"[A-Z0-9]{16}"),
        ("cloud_key", rb"ABSK", rb"[A-Za-z0-9+/]{100,270}={0,2}"),
        ("cloud_key", rb"bedrock-api-key-", rb"[A-Za-z0-9+/]{24,2000}={0,2}"),
        ("cloud_key", rb"AIza", rb"[A-Za-z0-9_-]{35}"),
        ("cloud_key", rb"GOCSPX-", rb"[A-Za-z0-9_-]{24,40}"),
        ("cloud_key", rb"(?:Account|SharedAccess)Key=", rb"[A-Za-z0-9+/]{40,100}={0,2}"),
        ("cloud_key", rb"sig=", rb"(?:[A-Za-z0-9]|[+/]|%2[BbFf]){43}(?:=|%3[Dd])"),
        ("cloud_key", rb"do[opr]_v1_", rb"[a-f0-9]{64}"),
        ("cloud_key", rb"LTAI", rb"[A-Za-z0-9]{12,24}"),
        ("cloud_key", rb"AKID", rb"[A-Za-z0-9]{32}"),
        ("cloud_key", rb"AQVN", rb"[A-Za-z0-9_-]{35,38}"),
        ("cloud_key", rb"t1\.[A-Za-z0-9_-]{1,40}={0,2}\.", rb"[A-Za-z0-9_-]{86}={0,2}"),
        ("cloud_key", rb"v1\.0-", rb"[a-f0-9]{24}-[a-f0-9]{146}"),
        ("cloud_key", rb"HRKU-AA", rb"[A-Za-z0-9_-]{58}"),
        ("cloud_key", rb"AQ\.", rb"Ab8[A-Za-z0-9_-]{45,60}"),
        ("cloud_key", rb"IQoJb3JpZ2luX2Vj", rb"[A-Za-z0-9+/]{100,2000}={0,2}"),
        ("cloud_key", rb"FwoGZXIvYXdz", rb"[A-Za-z0-9+/]{100,2000}={0,2}"),
        ("cloud_key", rb"AKLT", rb"[A-Za-z0-9_-]{32,60}"),
        ("cloud_key", rb"SCW", rb"[A-Z0-9]{17}"),
        ("cloud_key", rb"mdb_sa_sk_", rb"[A-Za-z0-9_-]{40}"),
        ("cloud_key", rb"cf(?:k|[ua]t)_", rb"[A-Za-z0-9]{40,64}"),
        ("cloud_key", rb"vc[piark]_", rb"[A-Za-z0-9]{24,80}"),
        ("cloud_key", rb"vercel_blob_rw_", rb"[A-Za-z0-9]{10,24}_[A-Za-z0-9]{24,48}"),
        ("token", rb"ya29\.", rb"[A-Za-z0-9_-]{20,2000}"),
        ("token", rb"1//0[a-z]?", rb"[A-Za-z0-9_-]{40,200}"),
        ("token", rb"gh[pousr]_", rb"[A-Za-z0-9]{30,255}"),
        ("token", rb"github_pat_", rb"[A-Za-z0-9_]{36,255}"),
        (
            "token",
            rb"gl(?:pat|dt|ptt|rtr?|cbt-[0-9a-fA-F]{1,5}|cbt|soat|oas|ft|ffct|imt|agent|wt)-",
            rb"[A-Za-z0-9_.-]{20,300}",
        ),
        ("token", rb"GR1348941", rb"[A-Za-z0-9_-]{20}"),
        ("token", rb"_gitlab_session=", rb"[a-z0-9]{32}"),
        ("token", rb"xox[a-z]-", rb"[A-Za-z0-9%/+=-]{10,400}"),
        ("token", rb"xoxe\.xox[bp]-\d-", rb"[A-Za-z0-9]{100,200}"),
        ("token", rb"xapp-\d-", rb"[A-Za-z0-9-]{20,255}"),
        ("token", rb"hooks\.slack\.com/(?:services|workflows|triggers)/", rb"[A-Za-z0-9+/]{40,80}"),
        ("token", rb"discord(?:app)?\.com/api/webhooks/\d{16,20}/", rb"[A-Za-z0-9_-]{50,90}"),
        (
            "token",
            rb"webhook\.office\.com/webhookb2/",
            _UUID + rb"@" + _UUID + rb"/IncomingWebhook/[A-Za-z0-9]{32}/" + _UUID,
        ),
        ("token", rb"sk-ant-[a-z]{3,8}\d{2}-", rb"[A-Za-z0-9_-]{20,255}"),
        ("token", rb"sk-(?:proj|svcacct|admin|or-v1|lf)-", rb"[A-Za-z0-9_-]{20,255}"),
        ("token", rb"sk-", rb"[A-Za-z0-9]{20,100}"),
        ("token", rb"[sr]k_(?:live|test|prod)_", rb"[A-Za-z0-9]{10,255}"),
        ("token", rb"whsec_", rb"[A-Za-z0-9+/]{24,64}={0,2}"),
        ("token", rb"hf_", rb"[A-Za-z0-9]{30,40}"),
        ("token", rb"api_org_", rb"[A-Za-z0-9]{34}"),
        ("token", rb"npm_", rb"[A-Za-z0-9]{36}"),
        ("token", rb"pypi-(?:AgEIcHlwaS5vcmc)?", rb"[A-Za-z0-9_-]{50,1000}"),
        ("token", rb"rubygems_", rb"[a-f0-9]{48}"),
        ("token", rb"CLOJARS_", rb"[a-z0-9]{60}"),
        ("token", rb"SG\.", rb"[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}"),
        ("token", rb"SG\.", rb"[A-Za-z0-9_=.-]{66}"),
        ("token", rb"(?:SK|AC)", rb"[0-9a-f]{32}"),
        ("token", rb"shp(?:at|ca|pa|ss)_", rb"[a-fA-F0-9]{32}"),
        ("token", rb"hv[sbr]\.", rb"[A-Za-z0-9_-]{24,300}"),
        ("token", rb"ATATT3", rb"[A-Za-z0-9_=-]{50,250}"),
        ("token", rb"ATCTT3xFfG", rb"[A-Za-z0-9_=-]{50,250}"),
        ("token", rb"AGE-SECRET-KEY-1", rb"[A-Z0-9]{58}"),
        ("token", rb"A3-", rb"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
        ("token", rb"ops_eyJ", rb"[A-Za-z0-9+/]{250,2000}={0,3}"),
        ("token", rb"p8e-", rb"[a-z0-9]{32}"),
        ("token", rb"pat", rb"[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
        ("token", rb"AKCp", rb"[A-Za-z0-9]{69}"),
        ("token", rb"cmVmd", rb"[A-Za-z0-9]{59}"),
        (
            "token",
            rb"(?:sc|ext|scauth|authress)_",
            rb"[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}",
        ),
        ("token", rb"4b1d", rb"[A-Za-z0-9]{38}"),
        ("token", rb"dapi", rb"[a-f0-9]{32}(?:-\d)?"),
        ("token", rb"dnkey-", rb"[a-z0-9=_-]{26}-[a-z0-9=_-]{52}"),
        ("token", rb"dp\.(?:pt|st|ct|sa|scim|audit)\.", rb"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
        ("token", rb"duffel_(?:test|live)_", rb"[A-Za-z0-9_=-]{43}"),
        ("token", rb"dt0[a-zA-Z]\d\d\.", rb"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
        ("token", rb"EZ[AT]K", rb"[A-Za-z0-9]{54}"),
        ("token", rb"EAA[MC]", rb"[A-Za-z0-9]{100,400}"),
        ("token", rb"EAAA", rb"[A-Za-z0-9_-]{60}"),
        ("token", rb"sq0(?:atp|csp|idp)-", rb"[A-Za-z0-9_-]{22,60}"),
        ("token", rb"FLW(?:PUB|SEC)K(?:_TEST)?-", rb"[a-z0-9]{12}(?:[a-z0-9]{20}-X)?"),
        ("token", rb"fo1_", rb"[A-Za-z0-9_-]{43}"),
        ("token", rb"fm(?:1[ar]|2)_", rb"[A-Za-z0-9+/]{100,2000}={0,3}"),
        ("token", rb"fio-u-", rb"[A-Za-z0-9_=-]{64}"),
        ("token", rb"glc_", rb"[A-Za-z0-9+/]{32,400}={0,3}"),
        ("token", rb"(?:pat|sat)\.", rb"[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
        ("token", rb"ico-", rb"[A-Za-z0-9]{32}"),
        ("token", rb"s-s4t2(?:ud|af)-", rb"[a-f0-9]{64}"),
        ("token", rb"(?:live|test)_", rb"[a-f0-9]{35}"),
        ("token", rb"(?:live|test)_pub_", rb"[a-f0-9]{31}"),
        ("token", rb"(?:pub)?key-", rb"[a-f0-9]{32}"),
        ("token", rb"[ps]k\.", rb"[A-Za-z0-9]{60,200}\.[A-Za-z0-9_-]{22}"),
        ("token", rb"NRAK-", rb"[A-Za-z0-9]{27}"),
        ("token", rb"NRJS-", rb"[a-f0-9]{19}"),
        ("token", rb"NRII-", rb"[A-Za-z0-9_-]{32}"),
        ("token", rb"ntn_", rb"[A-Za-z0-9]{40,50}"),
        ("token", rb"secret_", rb"[A-Za-z0-9]{43}"),
        ("token", rb"API-", rb"[A-Z0-9]{26}"),
        ("token", rb"sha256~", rb"[A-Za-z0-9_-]{43}"),
        ("token", rb"access-(?:sandbox|development|production)-", _UUID),
        ("token", rb"pscale_(?:pw|tkn|oauth)_", rb"[A-Za-z0-9_=.-]{32,64}"),
        ("token", rb"PMAK-", rb"[a-f0-9]{24}-[a-f0-9]{34}"),
        ("token", rb"pnu_", rb"[A-Za-z0-9]{36}"),
        ("token", rb"pul-", rb"[a-f0-9]{40}"),
        ("token", rb"rdme_", rb"[a-z0-9]{70}"),
        ("token", rb"tk-us-", rb"[A-Za-z0-9_-]{48}"),
        ("token", rb"xkeysib-", rb"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
        ("token", rb"sntrys_", rb"[A-Za-z0-9+/=_]{80,400}"),
        ("token", rb"sntryu_", rb"[a-f0-9]{64}"),
        ("token", rb"sm_[aps]at_", rb"[A-Za-z0-9]{16}"),
        ("token", rb"shippo_(?:live|test)_", rb"[a-fA-F0-9]{40}"),
        ("token", rb"sq[uap]_", rb"[A-Za-z0-9=_-]{40}"),
        ("token", rb"sgp_(?:local_|[a-fA-F0-9]{16}_)?", rb"[a-fA-F0-9]{40}"),
        ("token", rb"tfp_", rb"[A-Za-z0-9_=.-]{40,60}"),
        ("token", rb"tskey-[a-z]{3,8}-", rb"[A-Za-z0-9]{8,30}(?:-[A-Za-z0-9]{16,64})?"),
        ("token", rb"lsv2_(?:pt|sk)_", rb"[a-f0-9]{32}_[a-f0-9]{10}"),
        ("token", rb"figd_", rb"[A-Za-z0-9_-]{40,60}"),
        ("token", rb"bk[upar]a_", rb"[a-z0-9]{40}"),
        ("token", rb"e2b_", rb"[a-f0-9]{40}"),
        ("token", rb"fc-", rb"[a-f0-9]{32}"),
        ("token", rb"ph[cx]_", rb"[A-Za-z0-9]{43,47}"),
        ("token", rb"nfp_", rb"[A-Za-z0-9]{36}"),
        ("token", rb"napi_", rb"[a-z0-9]{60,70}"),
        ("token", rb"CFPAT-", rb"[A-Za-z0-9_-]{43}"),
        ("token", rb"CCIPAT_", rb"[A-Za-z0-9]{22}_[a-f0-9]{40}"),
        ("token", rb"sl\.", rb"(?:u\.)?[A-Za-z0-9_=-]{130,1400}"),
        (
            "token",
            rb"(?:gsk|glsa|lin_api|lin_oauth|dckr_[po]at|sbp|xai|tvly|pplx|r8|nvapi|pcsk|jina|rnd|tgp_v1)[_-]",
            rb"[A-Za-z0-9_-]{27,200}",
        ),
        ("token", rb"4/0A", rb"[A-Za-z0-9_-]{60,120}"),
        ("token", rb"[sr]k_org_(?:live|test)_", rb"[A-Za-z0-9]{20,255}"),
        ("token", rb"sb_secret_", rb"[A-Za-z0-9_-]{20,64}"),
        ("token", rb"npg_", rb"[A-Za-z0-9]{12,16}"),
        ("token", rb"fw_", rb"[A-Za-z0-9]{22,24}"),
        ("token", rb"csk-", rb"[a-z0-9]{40,52}"),
        ("token", rb"re_", rb"[A-Za-z0-9]{8}_[A-Za-z0-9]{24}"),
        ("token", rb"ATBB", rb"[A-Za-z0-9]{32}"),
        ("token", rb"BBDC-", rb"[A-Za-z0-9+/@_-]{40,50}"),
        ("token", rb"rpa_", rb"[A-Za-z0-9]{40,48}"),
        ("token", rb"(?:crsr|key|dtn)_", rb"[a-f0-9]{64}"),
        ("token", rb"wandb_v1_", rb"[A-Za-z0-9_]{60,90}"),
        ("token", rb"sk_", rb"[a-f0-9]{48}"),
        ("token", rb"pa-", rb"[A-Za-z0-9_-]{43}"),
        ("token", rb"smry_", rb"[A-Za-z0-9]{24,48}"),
        ("token", rb"u?ak_", rb"[A-Za-z0-9_-]{20}"),
        ("token", rb"sess-", rb"[A-Za-z0-9]{40}"),
        ("token", rb"[sp]k-helicone-", rb"[a-z0-9]{7}(?:-[a-z0-9]{7}){3}"),
        ("token", rb"llx-", rb"[A-Za-z0-9]{48}"),
        ("token", rb"bb_live_", rb"[A-Za-z0-9_-]{24,40}"),
        ("token", rb"a[ks]-", rb"[A-Za-z0-9]{22}"),
        ("token", rb"BSA", rb"[A-Za-z0-9_-]{28}"),
        ("token", rb"KGAT_", rb"[a-f0-9]{32}"),
        ("token", rb"cio", rb"[A-Za-z0-9]{32}"),
        ("token", rb"oy2", rb"[a-z0-9]{43}"),
        ("token", rb"perm[:-]", rb"[A-Za-z0-9=_-]{6,64}\.[A-Za-z0-9=_-]{2,64}\.[A-Za-z0-9=_-]{24,64}"),
        ("token", rb"dose", rb"[a-f0-9]{32}"),
        ("token", rb"dbt[cu]_", rb"[A-Za-z0-9_-]{34,60}"),
        ("token", rb"xau_", rb"[A-Za-z0-9]{30,60}"),
        ("token", rb"[12]/", rb"\d{13,19}(?:/\d{13,19})?:[a-f0-9]{32}"),
        ("token", rb"pk_\d{5,12}_", rb"[A-Z0-9]{32}"),
        ("token", rb"pat-[a-z]{2}\d-", _UUID),
        ("token", rb"xsmtpsib-", rb"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
        ("token", rb"rzp_(?:live|test)_", rb"[A-Za-z0-9]{14}"),
        ("token", rb"(?:APP_USR|TEST)-", rb"\d{10,16}-\d{6}-[a-f0-9]{32}"),
        ("token", rb"access_token\$(?:production|sandbox)\$", rb"[a-z0-9]{16}\$[a-f0-9]{32}"),
        ("token", rb"pdl_(?:live|sdbx)_apikey_", rb"[a-z0-9]{26}_[A-Za-z0-9]{22}_[A-Za-z0-9]{3}"),
        ("token", rb"n8n_api_", rb"[A-Za-z0-9_.-]{40,400}"),
        ("token", rb"cal_(?:live_)?", rb"[a-f0-9]{32}"),
        ("token", rb"os_v2_(?:app|org)_", rb"[a-z0-9]{60,120}"),
        ("token", rb"apify_api_", rb"[A-Za-z0-9]{36,48}"),
        ("token", rb"expo_", rb"[A-Za-z0-9_-]{40}"),
        ("token", rb"signkey-[a-z]{4,10}-", rb"[a-f0-9]{64}"),
        ("token", rb"tr_(?:dev|prod|stg|pat)_", rb"[A-Za-z0-9]{20,44}"),
        (
            "token",
            _CUT + rb"[156]" + _CUT + rb"(?:rounds=\d{1,9}" + _CUT + rb")?",
            rb"[A-Za-z0-9./]{1,16}" + _CUT + rb"[A-Za-z0-9./]{22,86}",
        ),
        ("token", _CUT + rb"apr1" + _CUT, rb"[A-Za-z0-9./]{1,8}" + _CUT + rb"[A-Za-z0-9./]{22}"),
        ("token", _CUT + rb"2[abxy]" + _CUT + rb"\d\d" + _CUT, rb"[A-Za-z0-9./]{53}"),
        (
            "token",
            _CUT + rb"g?y" + _CUT + rb"[A-Za-z0-9./]{1,8}" + _CUT,
            rb"[A-Za-z0-9./]{1,86}" + _CUT + rb"[A-Za-z0-9./]{43}",
        ),
        (
            "token",
            _CUT + rb"argon2(?:id|i|d)" + _CUT + rb"(?:v=\d{1,3}" + _CUT + rb")?m=\d{1,9},t=\d{1,5},p=\d{1,3}" + _CUT,
            rb"[A-Za-z0-9+/]{8,90}" + _CUT + rb"[A-Za-z0-9+/]{16,128}",
        ),
    )
)
"""Forms with a fixed beginning, as issuers document them, with slightly wider lengths.

The last five are crypt(5) hashes.
"""

BY_MIDDLE: Final = (
    *(
        (middle, before + rb"\Z", Form("cloud_key", rb"", before + middle + after))
        for before, middle, after in (
            (rb"[A-Za-z0-9]{52}", rb"JQQJ9[9DH]", rb"[A-Za-z0-9]{26}(?:[A-Za-z0-9]{2}==)?"),
            (rb"[A-Za-z0-9+/]{76}", rb"(?:APIM|ACDb|\+ABa|\+AMC|\+ASt)", rb"[A-Za-z0-9+/]{5}[AQgw]=="),
            (rb"[A-Za-z0-9+/]{33}", rb"(?:AIoT|\+ASb|\+AEh|\+ARm)", rb"[A-P][A-Za-z0-9]{5}="),
            (rb"[A-Za-z0-9]{33}", rb"AzCa", rb"[A-P][A-Za-z0-9]{5}="),
            (rb"[A-Za-z0-9]{42}", rb"AzSe", rb"[A-D][A-Za-z0-9]{5}"),
            (rb"[A-Za-z0-9_-]{44}", rb"AzFu", rb"[A-Za-z0-9_-]{5}[AQgw]=="),
            (rb"[A-Za-z0-9+/]{42}", rb"\+ACR", rb"[A-D][A-Za-z0-9]{5}"),
        )
    ),
    (rb"-us\d", rb"[a-f0-9]{32}\Z", Form("token", rb"", rb"[a-f0-9]{32}-us\d{1,2}")),
    (rb"\d:A[A-Za-z0-9_-]{16}", rb"\d{4,15}\Z", Form("token", rb"\d{5,16}:A", rb"[A-Za-z0-9_-]{34}")),
    (
        rb"\.[\w-]{6}\.[\w-]{27}",
        rb"[MNO][A-Za-z0-9_-]{23,25}\Z",
        Form("token", rb"[MNO]", rb"[A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}"),
    ),
    (rb"\.atlasv1\.", rb"[A-Za-z0-9]{14}\Z", Form("token", rb"", rb"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}")),
    (
        rb"\dQ~[A-Za-z0-9_~.-]{16}",
        rb"[A-Za-z0-9_~.]{3}\Z",
        Form("cloud_key", rb"", rb"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    ),
    (rb"_mmk", rb"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}\Z", Form("token", rb"", rb"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk")),
    (
        rb"\d(?:\||%7[Cc])[A-Za-z0-9_-]{16}",
        rb"\d{14,15}\Z",
        Form("token", rb"\d{15,16}(?:\||%7[Cc])", rb"[A-Za-z0-9_-]{27,40}"),
    ),
)
"""(pattern in the middle, pattern before it, form) of the forms without a fixed beginning."""

_FIRST: Final = re.compile(rb"\A(\[[^\]]*\])\{(\d+)(?:,\d+)?\}")
_LAST_REPEAT: Final = re.compile(rb"\{(\d+),\d+\}(?:=\{0,\d\})?\Z")
_LITERAL: Final = re.compile(rb"[^A-Za-z0-9\[\]]")
_ENOUGH: Final = 16
"""Characters after a beginning that suffice to call a finder."""

_ENOUGH_OF_WORD: Final = 4
"""Characters after a beginning of letters and digits that suffice to call a finder.

The number is smaller so that the automaton does not count through parts of base64 bodies.
"""

_SHORT: Final = 4
"""Characters of a beginning below which the trigger covers the whole form; the characters after it must be twice as
many.
"""


def trigger(form: Form) -> bytes:
    """Return a short pattern that matches the beginning of every secret of a form.

    It is short since one automaton holds the triggers of all forms.
    """
    first = _FIRST.match(form.secret)
    if first is None or int(first[2]) < _SHORT * 2 or len(form.stays) < _SHORT:
        return form.stays + _LAST_REPEAT.sub(rb"{\1}", form.secret)
    most = _ENOUGH if _LITERAL.search(form.stays) else _ENOUGH_OF_WORD
    return form.stays + first[1] + b"{%d}" % min(int(first[2]), most)
