"use strict";(()=>{var r=async(n,e)=>(await fetch("/graphql",{method:"POST",credentials:"same-origin",headers:{Accept:"application/json","Content-Type":"application/json",...e==null?void 0:e.headers},body:JSON.stringify(n)})).json(),t=`# Tallygate's GraphQL API. Sign in first; the session cookie is then used for everything you run here.
#
# mutation { signIn(input: { email: "\u2026", password: "\u2026" }) { userErrors { field code message } } }

query {
  viewer {
    id
    email
  }
}
`;ReactDOM.createRoot(document.getElementById("graphiql")).render(React.createElement(GraphiQL,{fetcher:r,defaultQuery:t,defaultEditorToolsVisibility:!0}));})();
