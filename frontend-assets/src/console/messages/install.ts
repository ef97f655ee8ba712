// English texts of new sites and their installation.
export default {
  'newSite.submit': 'Create the site',
  'newSite.domain': 'Domain',
  'newSite.domainHint': 'Its subdomains are included, also www. You can add more domains later.',
  'newSite.www': 'The site becomes {domain}. It accepts www.{domain} and all other subdomains.',
  'newSite.covered':
    '{host} belongs to {domain} already: the tag of that site works there, too. Create another site only to count it separately.',
  'newSite.local':
    'Browsers of visitors cannot open localhost. To try it on this machine, open your page as shop.localhost and create a site of this name, if the operator has set TALLYGATE_ALLOW_LOCAL_DOMAINS.',
  'newSite.name': 'Name',
  'newSite.nameHint': 'Optional. Default: the domain.',
  'install.step1': '1. Add the tag',
  'install.step2': '2. Open your page',
  'install.step3': '3. Result',
  'install.steps': 'Show the steps',
  'install.tagHint':
    "Put this into the <head> of every page. In single-page applications, changes of the route count by themselves; routers without the history API call svc('pageview').",
  'install.cspHint': 'Only if your pages send such a policy, it must also allow:',
  'install.wordpress':
    'Save this as wp-content/mu-plugins/tallygate.php. Signed-in authors and editors are not counted: open your page in a private window.',
  'install.manager': 'Tag manager',
  'install.managerText': 'Tag managers drop attributes of script tags. Use this as custom HTML, on all pages.',
  'install.npm': 'For apps with a bundler. Install the package @tallygate/analytics and call init once, where the app starts.',
  'install.server': 'Server',
  'install.serverText':
    "Events that no browser sees, such as a paid invoice, with the visitor's address and user agent. They need a server secret:",
  'install.other': 'Other product',
  'install.otherText':
    'For a theme or program with fields for another product: type these values into its form, or put the tag into its template. Leave out https:// if the form adds it.',
  'install.open': 'Open {domain}',
  'install.debug': 'It opens with ?svc_debug: its console shows what is sent.',
  'install.script': 'Address of the script',
  'install.host': 'Address of the server',
  'install.calls': 'Address of calls',
  'install.id': 'Id of the site',
  'check.waiting': 'Waiting for a hit …',
  'check.soon': 'The result appears here within seconds.',
  'check.arrived': 'It works.',
  'check.toSite': 'Open the report',
  'check.refused': 'Calls are arriving but are refused:',
  'check.addDomain': 'Add a domain',
  'check.ignored': 'Calls are arriving but are ignored on purpose:',
  'check.ignored.bot':
    'Sent by a browser that names itself a bot, or runs headless. Open your page in the regular browser that you use every day.',
  'check.ignored.excluded_address':
    'Your network is among the excluded addresses. Use another network, such as your phone’s, or remove the address for this check.',
  'check.ignored.excluded_country': 'Your country is excluded. Remove it for this check.',
  'check.ignored.excluded_path': 'This page is excluded. Open another page.',
  'check.ignored.referrer_spam': 'You came from a website that advertises itself in reports. Open your page by its address.',
  'check.ignored.data_centre':
    'Your network belongs to a data centre, as with a VPN. Use another network, or turn the setting off for this check.',
  'check.ignored.flood': 'Too many calls came from your network. Wait a minute, then open your page again.',
  'check.ignored.duplicate_pageview': 'The same page was counted within the last second. Wait a second, then open it again.',
  'check.doNotTrack':
    'Your browser asks websites not to track you, so the script sends nothing from it. Use another browser for this check.',
  'check.delay': 'Pages on {domains} and their subdomains are accepted.',
};
