// English texts of the parts that pages of two modules use.
export default {
  'install.csp': 'Content-Security-Policy',
  'rejections.calls': { one: '{n} call', other: '{n} calls' },
  'events.action': 'Action',
  'settings.general': 'General',
  'settings.secretEnds': 'The current secret ends in …{hint}.',
  'settings.secretRotate': 'Replace the secret',
  'transfer.title': 'Move to another account',
  'transfer.text': 'Members of this account lose access, and those of the new one get it.',
  'transfer.to': 'New account',
  'transfer.done': '{name} was moved',
  'deleted.title': 'Recently deleted sites',
  'settings.deleted': '{name} is deleted',
  'secret.keepOld': 'The current secret remains valid',
  'secret.keepOldHint': 'Choose “not at all” if others know it.',
  'secret.keepNot': 'Not at all',
  'secret.keepDay': 'For one day',
  'secret.keepWeek': 'For seven days',
  'secret.old': 'The replaced secret, which ends in …{hint}, is valid until {date}.',
  'secret.revokeOld': 'Revoke it now',
  'captcha.usage': 'Verifications this month',
  'captcha.usageHint': 'Plan {plan}, shared by all sitekeys. The count restarts on {date}.',
  'captcha.unlimited': { one: '{n} verification, without a limit.', other: '{n} verifications, without a limit.' },
  'captcha.inReserve':
    'The quota is used up. Up to {reserve} more verifications are accepted until {date}; then they are rejected.',
  'captcha.exhausted':
    'Quota and reserve are used up: verifications are rejected until {date}. Ask the operator for a larger plan.',
};
