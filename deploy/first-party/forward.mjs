// Passes requests below /x/ of a website on to Tallygate. cloudflare.mjs, netlify.mjs, next.mjs and vercel.mjs call it with the
// visitor's address. Replace the folder, the names of the scripts and stats.example.com. docs/owner/first-party.md has the reasons,
// and the addresses that TALLYGATE_TRUSTED_PROXIES needs.

const server = 'https://stats.example.com';
const folder = '/x/';
const scripts = { 'app.js': 'svc.js', 'form.js': 'captcha.js' };

// Only these headers are passed on: what the server reads of a browser. So the server gets no cookies, no Authorization,
// and no Referer, which has the full address of the page.
const passed = [
  'accept', 'accept-language', 'content-type', 'if-none-match', 'origin', 'sec-ch-ua', 'sec-ch-ua-mobile', 'sec-ch-ua-platform',
  'tallygate-probe', 'user-agent',
];

export const forward = async (request, visitorAddress) => {
  const { pathname, search } = new URL(request.url);
  const name = pathname.slice(folder.length);
  const headers = new Headers({ 'x-forwarded-for': visitorAddress, 'accept-encoding': 'identity' });
  for (const each of passed) {
    const value = request.headers.get(each);
    if (value !== null) headers.set(each, value);
  }

  const answer = await fetch(`${server}/${scripts[name] || name}${search}`, {
    method: request.method,
    headers,
    body: request.method === 'POST' ? await request.arrayBuffer() : undefined,
    redirect: 'manual',
  });

  // The body is decoded here, so two of these headers would be wrong. The third is the website's decision.
  const shown = new Headers(answer.headers);
  for (const each of ['content-encoding', 'content-length', 'strict-transport-security']) shown.delete(each);
  return new Response(answer.body, { status: answer.status, headers: shown });
};
