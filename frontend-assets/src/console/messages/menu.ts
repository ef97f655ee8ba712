// English texts of the list of a site's settings.
export default {
  'menu.open': 'Pages of the settings, now {page}',
  'menu.site': 'Site',
  'menu.data': 'Data',
  'menu.reports': 'Reports',
  'menu.files': 'Data transfer',
  'menu.general': 'General',
  'events.title': 'Events',
  'rejections.title': 'Refused calls',
  'webhooks.title': 'Webhooks',
  'alerts.title': 'Alerts',
  'alerts.andMails': 'Alerts and mails',
  'export.title': 'Export',
  'import.title': 'Import',
  'sharing.title': 'Sharing',
  'saved.title': 'Notes, segments, funnels',
  'usage.title': 'Usage',
};
