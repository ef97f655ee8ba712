// Prints the pages of the last 30 days. The types come from the schema; a wrong field does not
// compile.
//
//   esbuild report.ts --format=esm --outfile=report.mjs
//   BASE_URL=https://app.example.com API_TOKEN=tga_… SITE_ID=… node report.mjs

/** A query with the types of its result and its variables. */
interface Query<Result, Variables> {
  text: string
  /** Never set: it carries the types. */
  types?: (variables: Variables) => Result
}

interface GraphQLError {
  message: string
  extensions?: { code?: string }
}

/** Runs a query. It throws the first error, with its code. */
async function run<Result, Variables>(query: Query<Result, Variables>, variables: Variables): Promise<Result> {
  const response = await fetch(`${process.env.BASE_URL}/graphql`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${process.env.API_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ query: query.text, variables }),
    signal: AbortSignal.timeout(30_000),
  })
  const { data, errors } = (await response.json()) as { data?: Result; errors?: GraphQLError[] }
  if (errors?.length) throw new Error(`${errors[0].extensions?.code}: ${errors[0].message}`)
  return data as Result
}

type Imported = 'NONE' | 'INCLUDED' | 'NO_VALUES' | 'WHOLE_DAYS' | 'FILTERED'

interface Pages {
  site: {
    report: {
      imported: Imported
      totals: { visitors: number; pageviews: number; bounceRate: number | null }
      breakdown: { totalCount: number; edges: { node: { value: string; metrics: { pageviews: number } } }[] } | null
    } | null
  } | null
}

const pages: Query<Pages, { id: string; preset: 'TODAY' | 'LAST_30_DAYS' }> = {
  text: `query ($id: ID!, $preset: ReportPreset!) {
    site(id: $id) {
      report(period: {preset: $preset}) {
        imported
        totals { visitors pageviews bounceRate }
        breakdown(by: PAGE, orderBy: {metric: PAGEVIEWS}) {
          totalCount
          edges { node { value metrics { pageviews } } }
        }
      }
    }
  }`,
}

const { site } = await run(pages, { id: process.env.SITE_ID!, preset: process.env.PRESET === 'TODAY' ? 'TODAY' : 'LAST_30_DAYS' })
if (!site?.report) throw new Error('there is no such site')

const { totals, breakdown, imported } = site.report
console.log(`${totals.visitors} visitors, ${totals.pageviews} page views, imported figures: ${imported}`)
for (const { node } of breakdown?.edges ?? []) console.log(`${node.metrics.pageviews} ${node.value}`)
