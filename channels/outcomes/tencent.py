"""What Tencent Cloud's answers and receipts mean, as tables. A code that stands in none of them is temporary.

Codes: cloud.tencent.com/document/api/382/59177 (texts), cloud.tencent.com/document/api/1128/51568 (calls),
cloud.tencent.com/document/api/382/52075 (common), and errorcodes.py of tencentcloud-sdk-python-sms 3.1.153
and -vms 3.0.1459. What manages signatures and templates is left out: we never ask for it.
"""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from channels.answers import REFUSED, TEMPORARY, TOO_LONG, Verdict
from channels.base import Outcome
from channels.outcomes import broken, refused, throttled
from channels.telecom.base import PHONE, SMS
from channels.telecom.exchange import ACCEPTED

HOUR = timedelta(hours=1)


KEY = broken("secret_id or secret_key is wrong or disabled")
CLOCK = broken("this machine's clock is off by more than five minutes")
PERMISSION = broken("the CAM user may not send: grant QcloudSMSFullAccess or QcloudVMSFullAccess")
APP = broken("app_id is not an application of this account")
SIGN = broken("sign_name is not an approved signature of this account")
TEMPLATE = broken("template_id is not an approved template of this account")
PARAMS = broken("params do not fit the template's variables")
BALANCE = broken("the package is used up or the account is in arrears")
ORIGIN = broken("this machine's address is not in the list set in the console")
PLACE = refused("the template or the account is not for numbers of this country")
REQUESTS = throttled(timedelta(seconds=5))

# HTTP 200 with Response.Error: cloud.tencent.com/document/api/382/52075.
COMMON: Mapping[str, Verdict] = {
    "ActionOffline": REFUSED,
    "AuthFailure": KEY,
    "AuthFailure.InvalidAuthorization": KEY,
    "AuthFailure.InvalidSecretId": KEY,
    "AuthFailure.MFAFailure": PERMISSION,
    "AuthFailure.SecretIdNotFound": KEY,
    "AuthFailure.SignatureExpire": CLOCK,
    "AuthFailure.SignatureFailure": KEY,
    "AuthFailure.TokenFailure": KEY,
    "AuthFailure.UnauthorizedOperation": PERMISSION,
    "InternalError": TEMPORARY,
    "InvalidAction": REFUSED,
    "InvalidParameter": REFUSED,
    "InvalidParameterValue": REFUSED,
    "InvalidRequest": REFUSED,
    "IpInBlacklist": ORIGIN,
    "IpNotInWhitelist": ORIGIN,
    "LimitExceeded": throttled(HOUR),
    "MissingParameter": REFUSED,
    "NoSuchProduct": REFUSED,
    "NoSuchVersion": REFUSED,
    "RequestLimitExceeded": REQUESTS,
    "RequestLimitExceeded.GlobalRegionUinLimitExceeded": REQUESTS,
    "RequestLimitExceeded.IPLimitExceeded": REQUESTS,
    "RequestLimitExceeded.UinLimitExceeded": REQUESTS,
    "RequestSizeLimitExceeded": TOO_LONG,
    "ResourceInsufficient": TEMPORARY,
    "ResourceUnavailable": TEMPORARY,
    "ServiceUnavailable": TEMPORARY,
    "UnauthorizedOperation": PERMISSION,
    "UnknownParameter": REFUSED,
    "UnsupportedOperation": REFUSED,
    "UnsupportedProtocol": REFUSED,
    "UnsupportedRegion": broken("region offers no such service: leave it out, or give ap-guangzhou"),
}

# Of the request, and of each number in SendStatusSet: cloud.tencent.com/document/api/382/59177
TEXTS: Mapping[str, Verdict] = {
    "Ok": ACCEPTED,  # accepted, not delivered: the receipt tells
    "FailedOperation.ContainSensitiveWord": refused("a word in it is forbidden"),
    "FailedOperation.FailResolvePacket": REFUSED,
    "FailedOperation.InsufficientBalanceInSmsPackage": BALANCE,
    "FailedOperation.JsonParseFail": REFUSED,
    "FailedOperation.MarketingSendTimeConstraint": broken("the template is for marketing, not notifications"),
    "FailedOperation.OtherError": TEMPORARY,
    "FailedOperation.ParametersOtherError": TEMPORARY,
    "FailedOperation.PhoneNumberInBlacklist": refused("the person, or the carrier, has blocked it"),
    "FailedOperation.PhoneNumberParseFail": REFUSED,
    "FailedOperation.ProhibitSubAccountUse": PERMISSION,
    "FailedOperation.SignatureIncorrectOrUnapproved": SIGN,
    "FailedOperation.MissingSignature": SIGN,
    "FailedOperation.SignIdNotExist": SIGN,
    "FailedOperation.QualificationIdNotApproved": SIGN,
    "FailedOperation.TemplateIdNotExist": TEMPLATE,
    "FailedOperation.TemplateIncorrectOrUnapproved": TEMPLATE,
    "FailedOperation.TemplateParamSetNotMatchApprovedTemplate": PARAMS,
    "FailedOperation.TemplateUnapprovedOrNotExist": TEMPLATE,
    "FailedOperation.NotEnterpriseCertification": PERMISSION,
    "InternalError.JsonParseFail": TEMPORARY,
    "InternalError.OtherError": TEMPORARY,
    "InternalError.ParseBackendResponseFail": TEMPORARY,
    "InternalError.RequestTimeException": broken("this machine's clock is off by more than ten minutes"),
    "InternalError.RestApiInterfaceNotExist": REFUSED,
    "InternalError.SendAndRecvFail": TEMPORARY,
    "InternalError.SigFieldMissing": KEY,
    "InternalError.SigVerificationFail": KEY,
    "InternalError.Timeout": TEMPORARY,
    "InternalError.UnknownError": TEMPORARY,
    "InvalidParameter.AppidAndBizId": APP,
    "InvalidParameter.InvalidParameters": REFUSED,
    "InvalidParameter.DirtyWordFound": refused("a word in it is forbidden"),
    "InvalidParameterValue.ContentLengthLimit": TOO_LONG,
    "InvalidParameterValue.IncorrectPhoneNumber": REFUSED,
    "InvalidParameterValue.ProhibitedUseUrlInTemplateParameter": refused("no URL may stand in params"),
    "InvalidParameterValue.SdkAppIdNotExist": APP,
    "InvalidParameterValue.TemplateParameterFormatError": broken("the template is for codes of digits"),
    "InvalidParameterValue.TemplateParameterLengthLimit": refused(
        "accounts of 2024 and later may have variables of 6 characters only: shorten params in the template"
    ),
    "InvalidParameterValue.UnsupportedTemplateVariable": TEMPLATE,
    "LimitExceeded.AppCountryOrRegionDailyLimit": throttled(HOUR),
    "LimitExceeded.AppCountryOrRegionInBlacklist": PLACE,
    "LimitExceeded.AppDailyLimit": throttled(HOUR),
    "LimitExceeded.AppGlobalDailyLimit": throttled(HOUR),
    "LimitExceeded.AppMainlandChinaDailyLimit": throttled(HOUR),
    "LimitExceeded.DailyLimit": throttled(HOUR),
    "LimitExceeded.DeliveryFrequencyLimit": throttled(timedelta(minutes=1)),
    "LimitExceeded.GlobalSmsSendingRateLimit": REQUESTS,
    "LimitExceeded.PhoneNumberCountLimit": REFUSED,
    "LimitExceeded.PhoneNumberDailyLimit": throttled(HOUR),
    "LimitExceeded.PhoneNumberOneHourLimit": throttled(HOUR),
    "LimitExceeded.PhoneNumberSameContentDailyLimit": throttled(HOUR),
    "LimitExceeded.PhoneNumberThirtySecondLimit": throttled(timedelta(seconds=30)),
    "MissingParameter.EmptyPhoneNumberSet": REFUSED,
    "UnauthorizedOperation.IndividualUserMarketingSmsPermissionDeny": PERMISSION,
    "UnauthorizedOperation.RequestIpNotInWhitelist": ORIGIN,
    "UnauthorizedOperation.RequestPermissionDeny": PERMISSION,
    "UnauthorizedOperation.SdkAppIdIsDisabled": APP,
    "UnauthorizedOperation.ServiceSuspendDueToArrears": BALANCE,
    "UnauthorizedOperation.SmsSdkAppIdVerifyFail": APP,
    "UnsupportedOperation.ChineseMainlandTemplateToGlobalPhone": PLACE,
    "UnsupportedOperation.ContainDomesticAndInternationalPhoneNumber": PLACE,
    "UnsupportedOperation.ContainDomesticPhoneNumber": PLACE,
    "UnsupportedOperation.GlobalTemplateToChineseMainlandPhone": PLACE,
    "UnsupportedOperation.UnsupportedRegion": PLACE,
}

# cloud.tencent.com/document/api/1128/51568
CALLS: Mapping[str, Verdict] = {
    "Ok": ACCEPTED,  # ours: a CallId was given; only a callback tells whether anybody answered
    "FailedOperation.AccessUpstreamTimeout": TEMPORARY,
    "FailedOperation.ContainSensitiveWord": refused("a word in it is forbidden"),
    "FailedOperation.FailResolvePacket": REFUSED,
    "FailedOperation.InsufficientBalanceInVoicePackage": BALANCE,
    "FailedOperation.InvalidJsonParameters": REFUSED,
    "FailedOperation.InvalidParameters": REFUSED,
    "FailedOperation.JsonParseFail": REFUSED,
    "FailedOperation.ParametersOtherError": TEMPORARY,
    "FailedOperation.PhonenumberUnappliedOrExpired": broken("the account has no number to call from"),
    "FailedOperation.TemplateIncorrectOrUnapproved": TEMPLATE,
    "FailedOperation.TemplateUnapprovedOrNotExist": TEMPLATE,
    "InternalError.AccessUpstreamTimeout": TEMPORARY,
    "InternalError.RequestTimeException": broken("this machine's clock is off by more than ten minutes"),
    "InternalError.RestApiInterfaceNotExist": REFUSED,
    "InternalError.SigVerificationFail": KEY,
    "InternalError.SsoSendRecvFail": TEMPORARY,
    "InternalError.UpstreamError": TEMPORARY,
    "InvalidParameterValue.CalledNumberVerifyFail": REFUSED,
    "InvalidParameterValue.ContentLengthLimit": TOO_LONG,
    "InvalidParameterValue.SdkAppidNotExist": APP,
    # A number's own quota, by night one call: whoever is next in the list is called meanwhile.
    "LimitExceeded.DeliveryFrequencyLimit": throttled(timedelta(minutes=10)),
    "UnauthorizedOperation.SdkAppidIsDisabled": APP,
    "UnauthorizedOperation.ServiceSuspendDueToArrears": BALANCE,
    "UnauthorizedOperation.VoiceSdkAppidVerifyFail": APP,
}
# Families that mean one thing whatever follows the point: the same page, "AuthFailure.*" and so on.
FAMILIES: Mapping[str, Verdict] = {
    "AuthFailure": KEY, "InternalError": TEMPORARY, "RequestLimitExceeded": REQUESTS,
}  # fmt: skip
TABLES: Mapping[str, Mapping[str, Verdict]] = MappingProxyType(
    {SMS: {**COMMON, **TEXTS}, PHONE: {**COMMON, **CALLS}}
)

# ReportStatus of a text: cloud.tencent.com/document/api/382/52067. A text that no carrier has reported on
# is not listed at all.
RECEIPTS: Mapping[str, Outcome] = {"SUCCESS": Outcome.DELIVERED, "FAIL": Outcome.REFUSED}


def verdict(kind: str, code: str | None) -> Verdict | None:
    """The verdict on a code; None where the table does not know it."""
    if code is None:
        return None
    return TABLES[kind].get(code) or FAMILIES.get(code.partition(".")[0])
