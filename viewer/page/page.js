// SPDX-License-Identifier: Apache-2.0
// Functions that the viewer calls in its page (viewer/page/page_window.h). Merged into emscripten's output.
mergeInto(LibraryManager.library, {
  // Jobs take turns, each on its own stack, suspended where it yields. This needs JavaScript Promise Integration;
  // without it, a job runs to its end once started.
  $Turns: {
    waiting: [],
    scheduled: false,
    stackBytes: 1 << 20,
    frameStack: 0,  // the stack pointer while nothing runs
    channel: null,
    run: null,

    canSuspend: function() { return typeof WebAssembly.Suspending == 'function'; },
    add: function(turn) {
      Turns.waiting.push(turn);
      Turns.schedule();
    },
    schedule: function() {
      if (Turns.scheduled || !Turns.waiting.length) return;
      if (!Turns.channel) {
        Turns.channel = new MessageChannel();
        Turns.channel.port1.onmessage = Turns.next;
      }
      Turns.scheduled = true;
      Turns.channel.port2.postMessage(0);
    },
    // One turn for each browser event: stacks switch nowhere else.
    next: function() {
      Turns.scheduled = false;
      Turns.waiting.shift()();
      Turns.schedule();
    },
    begin: function(work) {
      if (!Turns.canSuspend()) return _memreel_run_work(work);
      const run = Turns.run || (Turns.run = WebAssembly.promising(Module['asm']['memreel_run_work']));
      const stack = _malloc(Turns.stackBytes);
      Turns.frameStack = stackSave();
      stackRestore((stack + Turns.stackBytes) & ~15);
      const end = function() {
        stackRestore(Turns.frameStack);
        _free(stack);
      };
      run(work).then(end, function(error) {
        end();
        memreel.fail(String(error));
      });
      stackRestore(Turns.frameStack);
    },
  },

  page_begin__deps: ['$Turns', 'malloc', 'free'],
  page_begin: function(work) {
    Turns.add(function() { Turns.begin(work); });
  },
  page_give_way__deps: ['$Turns'],
  page_give_way: function(milliseconds) {
    if (!Turns.canSuspend()) return 0;
    const stack = stackSave();
    stackRestore(Turns.frameStack);
    return new Promise(function(resolve) {
      const goOn = function() {
        stackRestore(stack);
        resolve(1);
      };
      if (milliseconds > 0) setTimeout(Turns.add, milliseconds, goOn);
      else Turns.add(goOn);
    });
  },

  page_fail: function(why) { memreel.fail(UTF8ToString(why)); },
  page_choose_file: function() { memreel.choose(); },
  page_copy: function(text) { memreel.copy(UTF8ToString(text)); },
  page_pasted__deps: ['malloc', 'free'],
  page_pasted: function() {
    if (memreel.pastedAt) _free(memreel.pastedAt);
    const bytes = lengthBytesUTF8(memreel.pasted) + 1;
    memreel.pastedAt = _malloc(bytes);
    stringToUTF8(memreel.pasted, memreel.pastedAt, bytes);
    return memreel.pastedAt;
  },
  page_prefers_dark: function() { return memreel.preference.matches ? 1 : 0; },
  page_set_pointer: function(name) {
    const pointer = UTF8ToString(name);
    if (Module['canvas'].style.cursor != pointer) Module['canvas'].style.cursor = pointer;
  },
});
