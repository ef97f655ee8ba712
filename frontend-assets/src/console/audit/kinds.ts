// The kinds of changes that the log is filtered by, with the names of their mutations.

const names = (text: string): string[] => text.trim().split(/\s+/);

export const kinds: Record<string, string[]> = {
  signIns: names(`signIn signOut signUp confirmSignUp signInWithPasskey finishProviderSignIn requestPasswordReset resetPassword
    changePassword requestEmailChange confirmEmailChange revokeSession confirmTotp disableTotp renewRecoveryCodes
    finishPasskeyRegistration renamePasskey deletePasskey`),
  sites: names(`createSite updateSite deleteSite restoreSite pauseSite resumeSite transferSite setSitePlan addSiteDomain
    removeSiteDomain registerEvent unregisterEvent markKeyEvent unmarkKeyEvent setConversionWebhook setDailyExportWebhook
    rotateServerSecret revokeServerSecret revokeOldServerSecret createAnnotation updateAnnotation deleteAnnotation
    createSegment updateSegment deleteSegment createFunnel updateFunnel deleteFunnel createSharedLink revokeSharedLink
    import undoImport deleteUserData createAlertChannel createSiteAlertChannel updateAlertChannel deleteAlertChannel
    redeliver redeliverFailed resendDailyExport sendTestWebhook`),
  members: names(`inviteMember revokeInvitation acceptInvitation setMemberRole removeMember leaveAccount createAccount
    updateAccount setAccountSecurity setAccountProvider verifyProviderDomain deleteAccountProvider suspendAccount
    resumeAccount`),
  keys: names('createApiToken revokeApiToken rotateServerSecret revokeServerSecret revokeOldServerSecret rotateSitekeySecret revokeOldSitekeySecret'),
  captcha: names(`createSitekey updateSitekey updateCaptchaPolicy deleteSitekey transferSitekey rotateSitekeySecret
    revokeOldSitekeySecret setCaptchaPlan`),
};
