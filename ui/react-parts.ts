/**
 * React DOM is one CommonJS file, of which a bundler can leave nothing out. The dashboard takes over no markup of a server
 * (hydration), has no view transitions, no forms with actions, no custom elements, no refs to fragments, and renders neither
 * stylesheets nor scripts. These parts are removed by name: 16 KB less script (decision 57).
 */
import type { Plugin } from "vite"

/** Never called. If one is called after all, it throws. */
const unused = `
  prepareToHydrateHostInstance canHydrateInstance canHydrateTextInstance canHydrateHydrationBoundary getNextHydratable
  getNextHydratableInstanceAfterHydrationBoundary throwOnHydrationMismatch queueHydrationError popToNextHostParent
  getHydratableHoistableCache updateDehydratedSuspenseComponent retrySuspenseComponentWithoutHydrating
  retryActivityComponentWithoutHydrating mountHostRootWithoutHydrating retryDehydratedSuspenseBoundary
  createFiberFromDehydratedFragment getBumpedLaneForHydration getBumpedLaneForHydrationByLane hideOrUnhideDehydratedBoundary
  clearHydrationBoundary pushDehydratedActivitySuspenseHandler queueIfContinuousEvent retryIfBlockedOn
  attemptExplicitHydrationTarget attemptContinuousHydration attemptHydrationAtCurrentPriority scheduleReplayQueueIfNeeded
  replayUnblockedEvents pushTreeFork pushTreeId pushMaterializedTreeId restoreSuspendedTreeContext

  startViewTransition measureViewTransitionHostInstancesRecursive restoreViewTransitionName applyViewTransitionName
  applyViewTransitionToHostInstancesRecursive applyViewTransitionToHostInstances createViewTransitionInstance
  restoreViewTransitionOnHostInstances scheduleViewTransitionEvent reportViewTransitionError getViewTransitionClassName
  getViewTransitionName

  FragmentInstance commitNewChildToFragmentInstance deleteChildFromFragmentInstance addFragmentHandleToFiber
  validateDocumentPositionWithFiberTree

  getResource acquireResource suspendResource preloadResourceAndSuspendIfNeeded createHoistableInstance mountHoistable
  insertStylesheetIntoRoot insertStylesheet insertSuspendedStylesheets resolveSingletonInstance releaseSingletonInstance
  commitHostSingletonAcquisition clearSingletonPreambleContribution

  mountActionState updateActionStateImpl rerenderActionState runActionStateAction dispatchActionState
  ensureFormComponentIsStateful startHostTransition requestFormReset$1 recursivelyResetForms useHostTransitionStatus
  TransitionAwareHostComponent

  updateSuspenseListComponent initSuspenseListRenderState cutOffTailIfNeeded updateActivityComponent mountActivityChildren
  setPropOnCustomElement useMemoCache
`

const nothing = "() {}"

/** Called, always with the same result. */
const constant: Readonly<Record<string, string>> = {
  popHydrationState: "() { return !1 }",
  upgradeHydrationErrorsToRecoverable: "() { return null }",
  getParentHydrationBoundary: "() { return null }",
  commitActivityHydrationCallbacks: nothing,
  commitSuspenseHydrationCallbacks: nothing,
  commitEnterViewTransitions: nothing,
  commitExitViewTransitions: nothing,
  commitNestedViewTransitions: nothing,
  commitDeletedPairViewTransitions: nothing,
  commitAppearingPairViewTransitions: nothing,
  commitAfterMutationEffectsOnFiber: nothing,
  restoreEnterOrExitViewTransitions: nothing,
  restoreNestedViewTransitions: nothing,
  restorePairedViewTransitions: nothing,
  measureNestedViewTransitions: nothing,
  trackEnterViewTransitions: nothing,
  commitNewChildToFragmentInstances: nothing,
  commitFragmentInstanceInsertionEffects: nothing,
  commitFragmentInstanceDeletionEffects: nothing,
  isHostHoistableType: "() { return !1 }",
  isCustomElement: "() { return !1 }",
  preloadInstanceAndSuspendIfNeeded: "(fiber) { fiber.flags &= -16777217 }",
  accumulateSuspenseyCommitOnFiber: nothing,
  waitForCommitToBeReady: "() { return null }",
  // Forms with an action that are submitted.
  extractEvents$1: nothing,
  // Stacks of components, which no screen shows.
  getStackByFiberInDevAndProd: '() { return "" }',
}

export const withoutUnusedParts: Plugin = {
  name: "without-unused-parts",
  apply: "build",
  transform: (code, id) =>
    id.endsWith("/react-dom-client.production.js") ? { code: reduced(code), map: null } : null,
  load: id => (id.endsWith("/react-dom.production.js") ? internals : null),
}

/** Of `react-dom` React DOM itself uses only what its parts share. */
const internals = `exports.__DOM_INTERNALS_DO_NOT_USE_OR_WARN_USERS_THEY_CANNOT_UPGRADE = { d: {}, p: 0, findDOMNode: null }`

function reduced(code: string): string {
  const wanted = new Map(Object.entries(constant))
  for (const name of unused.trim().split(/\s+/)) wanted.set(name, `() { throw Error("left out: ${name}") }`)
  let text = code.replace(/^function ([\w$]+)\((?:.*{}$|[\s\S]*?^}$)/gm, (whole, name: string) => {
    const rest = wanted.get(name)
    wanted.delete(name)
    return rest === undefined ? whole : `function ${name}${rest}`
  })
  const remove = (pattern: RegExp, by = "") => {
    if (!pattern.test(text)) wanted.set(String(pattern), by)
    text = text.replace(pattern, by)
  }
  remove(/^FragmentInstance\.prototype\.\w+ = function [\s\S]*?^};$/gm)
  remove(/^exports\.hydrateRoot = [\s\S]*?^};$/m)
  remove(/^ReactDOMHydrationRoot\.prototype\.unstable_scheduleHydration = [\s\S]*?^};$/m)
  // What `react-dom` calls: functions that preload, and `findDOMNode`.
  remove(/^ReactDOMSharedInternals\.(d|findDOMNode) = [\s\S]*?^};$/gm)
  // It is never true, so neither is what stands behind it.
  remove(/(?<![\w$.])isHydrating = !0/g, "0")
  remove(/^ {2}isHydrating = !1;$/gm)
  remove(/(?<=[ (,!])isHydrating(?= [&|?]|\)|;)/g, "!1")
  if (wanted.size === 0) return text
  throw new Error(`React DOM has another form: ${[...wanted.keys()]}. Adapt ui/react-parts.ts.`)
}
