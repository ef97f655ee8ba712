// Starts GraphiQL on the page that the control plane serves at /graphql. It is a file of its own
// because the page's Content-Security-Policy forbids inline scripts.

/** The globals of the vendored UMD files, as far as they are used here. */
declare const React: { createElement(component: unknown, properties: object): unknown };
declare const ReactDOM: { createRoot(container: Element): { render(element: unknown): void } };
declare const GraphiQL: unknown;

/** A query, a mutation or the introspection query, as GraphiQL passes it. */
interface Operation {
  query: string;
  variables?: unknown;
  operationName?: string | null;
}

/** Sends an operation to the control plane's endpoint, with the session cookie. */
const fetcher = async (operation: Operation, options?: { headers?: Record<string, string> }): Promise<unknown> => {
  const response = await fetch('/graphql', {
    method: 'POST',
    credentials: 'same-origin',
    headers: { Accept: 'application/json', 'Content-Type': 'application/json', ...options?.headers },
    body: JSON.stringify(operation),
  });
  return response.json();
};

const welcome = `# Tallygate's GraphQL API. Sign in first; the session cookie is then used for everything you run here.
#
# mutation { signIn(input: { email: "…", password: "…" }) { userErrors { field code message } } }

query {
  viewer {
    id
    email
  }
}
`;

ReactDOM.createRoot(document.getElementById('graphiql')!).render(
  React.createElement(GraphiQL, { fetcher, defaultQuery: welcome, defaultEditorToolsVisibility: true }),
);
