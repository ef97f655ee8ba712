/**
 * Why nothing may be sent from here, if so: the visitor does not want to be measured, or this is no
 * page of a website.
 */
export const refused = () =>
  [
    /^(1|yes)$/.test((navigator.doNotTrack || window.doNotTrack)!) && 'Do Not Track',
    navigator.globalPrivacyControl && 'Global Privacy Control',
    // Local files, and frames without an address of their own.
    !/^http/.test(location.protocol) && location.protocol,
  ].find(Boolean);
