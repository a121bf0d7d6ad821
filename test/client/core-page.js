/** Runs in Chromium: core.test.ts serves it, with the bundle of `umbra/core` that a page would have. */
import { apply, graphView, newState } from "/page/core.js"

/** Folds the journal of a job, and answers with its graph after each of these facts. */
export default async function run(origin) {
  const read = async path => (await fetch(`${origin}${path}`)).json()
  const { job, version, moments } = await read("/page/wanted")
  const state = newState(await read(`/workflows/flow/versions/${version}/graph`))
  const graphs = {}
  for (let path = `/jobs/${job}/facts?limit=50`; path !== null; ) {
    const { facts, next } = await read(path)
    for (const fact of facts) {
      apply(state, fact)
      if (moments.includes(fact.index)) graphs[fact.index] = graphView(state, { now: fact.at })
    }
    path = next === null ? null : `/jobs/${job}/facts?limit=50&after=${next}`
  }
  return { graphs, unknown: state.unknownFacts, userAgent: navigator.userAgent }
}
