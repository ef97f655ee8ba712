/** Whether the visitor asked not to be measured, by Do Not Track (in any of its spellings) or Global Privacy Control. */
export const refused = (): boolean =>
  [navigator.doNotTrack, window.doNotTrack].some((answer) => answer === '1' || answer === 'yes') || !!navigator.globalPrivacyControl;
