// The page: chat at `/` and each conversation at `/#/chat/ID`, the server's state at `/#/status`, its interface at `/docs`.

import { render } from "preact";
import { useCallback, useEffect, useState } from "preact/hooks";
import { ApiError, key, models, request, type ModelInfo } from "./api";
import { Chat } from "./chat";
import { Docs } from "./docs";
import { KeyDialog } from "./dialogs";
import { load, save, type Settings } from "./settings";
import { Status } from "./status";
import "./style.css";

type Place = "chat" | "status" | "docs";

function place(): Place {
  if (/\/docs\/?$/.test(location.pathname)) return "docs";
  return location.hash.startsWith("#/status") ? "status" : "chat";
}

/** Conversation that the address names. */
function conversation(): string | null {
  return /^#\/chat\/([\w-]+)$/.exec(location.hash)?.[1] ?? null;
}

export type Server = "unknown" | "ready" | "away" | "closing" | "locked";

function App() {
  const [where, setWhere] = useState(place);
  const [chat, setChat] = useState(conversation);
  const [settings, setSettings] = useState<Settings>(load);
  const [list, setList] = useState<ModelInfo[]>([]);
  const [server, setServer] = useState<Server>("unknown");
  const [attempt, setAttempt] = useState(0);

  useEffect(() => {
    const moved = () => {
      setWhere(place());
      // The other pages lead back to the chat that was shown.
      if (place() === "chat") setChat(conversation());
    };
    addEventListener("hashchange", moved);
    addEventListener("popstate", moved);
    return () => {
      removeEventListener("hashchange", moved);
      removeEventListener("popstate", moved);
    };
  }, []);

  const go = useCallback((id: string | null, step: boolean) => {
    if (id === conversation() && place() === "chat") return;
    if (!step && place() !== "chat") return setChat(id);
    history[step ? "pushState" : "replaceState"](null, "", id ? `./#/chat/${id}` : "./#/chat");
    setChat(id);
  }, []);

  useEffect(() => {
    save(settings);
    if (settings.theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = settings.theme;
  }, [settings]);

  // Asks again and again, so that a server that was away is noticed when it is back.
  useEffect(() => {
    let timer = 0;
    let over = false;
    const look = async () => {
      let next: Server = "ready";
      try {
        await request("health");
      } catch (e) {
        next = e instanceof ApiError && e.status > 0 ? "closing" : "away";
      }
      if (next === "ready") {
        try {
          setList(await models());
        } catch (e) {
          next = e instanceof ApiError && (e.status === 401 || e.status === 403) ? "locked" : "away";
        }
      }
      if (over) return;
      setServer(next);
      timer = window.setTimeout(look, next === "ready" ? 10_000 : 2_000);
    };
    void look();
    return () => {
      over = true;
      clearTimeout(timer);
    };
  }, [attempt]);

  const link = (to: Place, text: string) => {
    const href = to === "docs" ? "docs" : to === "chat" && chat ? `./#/chat/${chat}` : `./#/${to}`;
    return (
      <a href={href} aria-current={where === to ? "page" : undefined}>
        {text}
      </a>
    );
  };
  const themes = { system: "light", light: "dark", dark: "system" } as const;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <strong class="brand">leyden</strong>
        <nav aria-label="Pages">
          {link("chat", "Chat")}
          {link("status", "Status")}
          {link("docs", "API")}
        </nav>
        <span class={`state ${server}`} role="status">
          {{ unknown: "…", ready: "ready", away: "server not reachable, trying again", closing: "server is closing", locked: "key needed" }[server]}
        </span>
        <button
          type="button"
          class="plain"
          title="Colours: as the system, light, dark"
          onClick={() => setSettings({ ...settings, theme: themes[settings.theme] })}
        >
          {{ system: "◐ auto", light: "○ light", dark: "● dark" }[settings.theme]}
        </button>
      </header>
      {where === "chat" && <Chat settings={settings} change={setSettings} models={list} server={server} address={chat} go={go} />}
      {where === "status" && <Status models={list} />}
      {where === "docs" && <Docs />}
      {server === "locked" && (
        <KeyDialog
          wrong={key.get() !== ""}
          done={(value) => {
            key.set(value);
            setAttempt(attempt + 1);
          }}
        />
      )}
    </>
  );
}

render(<App />, document.getElementById("app")!);
