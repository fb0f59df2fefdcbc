#include "analyzer/cli/commands.h"

namespace memreel::cli {

void add_commands(CLI::App& app, Exit& exit) {
  add_info_command(app, exit);
  add_explain_command(app, exit);
  add_report_command(app, exit);
  add_replay_command(app, exit);
  add_tune_command(app, exit);
  add_predict_command(app, exit);
  add_plan_command(app, exit);
  add_verify_command(app, exit);
  add_check_command(app, exit);
  add_diff_command(app, exit);
  add_fleet_command(app, exit);
  add_import_command(app, exit);
  add_export_command(app, exit);
  add_symbols_command(app, exit);
  add_demo_command(app, exit);
}

}  // namespace memreel::cli
