/** All workflows by name, with their latest version. */
import { useInfiniteQuery } from "@tanstack/react-query"
import { useState } from "react"
import { ask } from "../api/http.ts"
import { may, type Session } from "../api/session.ts"
import { clock, count, timeAgo } from "../model/format.ts"
import { Icon } from "../shell/icons.tsx"
import { rowKeys, useKeys } from "../shell/keys.ts"
import { go, pageHref } from "../shell/router.ts"
import { Empty, Failed, Loading, Main, useTitle } from "../shell/states.tsx"
import type { WorkflowList } from "./types.ts"

const PAGE = 100

export function WorkflowListView({ session }: { session: Session }) {
  const [filter, setFilter] = useState("")
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetching } = useInfiniteQuery({
    queryKey: ["workflows"],
    queryFn: ({ pageParam, signal }) =>
      ask<WorkflowList>("/workflows", { query: { limit: PAGE, after: pageParam }, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next ?? undefined,
  })
  useTitle("Workflows")
  const canPush = may(session, "manage")
  const write = () => canPush && go(pageHref("/workflows", { new: "1" }))
  useKeys({
    ...{ ...rowKeys(".wl a.med"), n: write, r: () => void refetch() },
    "/": () => document.querySelector<HTMLElement>("#wfilter")?.focus(),
  })
  const all = data?.pages.flatMap(({ workflows }) => workflows) ?? []
  const found = all.filter(({ name }) => name.toLowerCase().includes(filter.trim().toLowerCase()))
  return (
    <Main aria-busy={isFetching}>
      <div className="phead">
        <h1>Workflows</h1>
        {data !== undefined && (
          <span className="dim">
            {count(all.length)}
            {hasNextPage ? "+" : ""}
          </span>
        )}
        <span className="sp" />
        {all.length > 0 && (
          <input
            className="in wfilter"
            id="wfilter"
            aria-label="Filter by name"
            placeholder="Filter by name"
            value={filter}
            onChange={event => setFilter(event.target.value)}
          />
        )}
        {canPush && (
          <button className="btn" type="button" title="New workflow  N" onClick={write}>
            <Icon name="plus" />
            New
          </button>
        )}
      </div>
      <section className="panel">
        {error !== null && data === undefined ? (
          <Failed
            what="Workflows"
            error={error}
            note="This is not an empty list."
            onRetry={() => void refetch()}
          />
        ) : data === undefined ? (
          <Loading what="workflows" rows={8} />
        ) : all.length === 0 ? (
          <Empty title="No workflow yet">
            <p>
              <code className="mono">umbra push flow.yaml</code> stores one
              {canPush ? ", or write one here." : "."}
            </p>
          </Empty>
        ) : found.length === 0 ? (
          <Empty title="No name matches">
            <p>
              <button className="link" type="button" onClick={() => setFilter("")}>
                Show all {count(all.length)}
              </button>
            </p>
          </Empty>
        ) : (
          <table className="tbl wl">
            <thead>
              <tr>
                <th>Workflow</th>
                <th className="num">Latest</th>
                <th>Pushed</th>
                <th>By</th>
                <th>
                  <span className="sr">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {found.map(({ name, version, created_at: at, pushed_by: by }) => (
                <tr key={name}>
                  <td className="wn">
                    <a className="med" href={pageHref(`/workflows/${encodeURIComponent(name)}`)}>
                      {name}
                    </a>
                  </td>
                  <td className="num">v{version}</td>
                  <td title={timeAgo(Date.parse(at))}>{clock(Date.parse(at))}</td>
                  <td className="dim by">{by ?? ""}</td>
                  <td className="num">
                    <a className="link small" href={pageHref("/jobs", { workflow: name })}>
                      Jobs<span className="sr"> of {name}</span>
                    </a>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </section>
      {hasNextPage && (
        <p className="more">
          <button className="btn" type="button" disabled={isFetching} onClick={() => void fetchNextPage()}>
            More
          </button>
        </p>
      )}
    </Main>
  )
}
