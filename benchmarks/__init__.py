"""Measurements anybody can repeat: ``python -m benchmarks …``.

=======================  =======================================================================
``noise``                accuracy on planted partitions, some of the votes spoiled
``noise_report``         its results as JSON, table, page and picture
``regret``               how far each consensus function stays behind the best one
``consensus_suite``      its cells: planted partitions, real data, several views, a market
``regret_report``        its results as JSON, tables and sentences
``regret_page``          their page and picture
``paper_tables``         the paper's tables computed anew: ``table2``, ``table3``
``paper_cells``          their cells: sets, recipes, methods
``paper_figures``        what the paper prints
``paper_tables_report``  their results as JSON and tables; ``paper_tables_page``
``peers``                accuracy, time, memory and reach beside other packages
``peer_…``               their tasks, trials and environments, and what runs in these
``peers_report``         their results as JSON, tables, page and picture
``divided``              the robust relaxation in parts beside the undivided one
``divided_report``       its results as JSON, table, page and picture
``speed``                time and memory side by side with other ways to the same answer
``contenders``           the inputs and the work that ``speed`` measures
``incremental``          partitions that come later beside a fit on all columns
``relaxation_speed``     a step of the robust relaxation beside what no step can do without
``relaxation_…``         its results as JSON, table and page
``gpu``                  a step on a GPU beside plain tensor code, the CPU and the bytes
``plain_tensors``        the plain tensor code; ``gpu_report`` has the results
``scale``                the program on ten thousand to ten million rows
``scale_…``              its tables, its peers, its results as JSON, tables, page and picture
``search_speed``         the sweeps of the search beside a serial one
``table_engines``        tables that stay in DuckDB or Spark, and runs that are killed
``table_engines_…``      their tables, and their results as JSON, tables and page
``serve``                the forecast service under load, beside ``bare_service``
``serve_…``              its loads, processes, reloads and answers, and its results as JSON,
                         tables, page and picture
``grown_models``         forecasters of as many advertisers as one wants, from a small one
``local_spark``          a Spark cluster on this machine, for a while
``first_use``            what importing and the first fit cost, before and after compilation
``speed_report``         its results as JSON, table and page
``ads_grid``             forecast error over a grid of simulated markets
``ads_engine``           histograms beside hand-written SQL
``ads_similarity``       all pairs of curves beside SciPy's ``cdist``
``ads_real``             three experiments on real data, in ``ads_ipinyou``, ``ads_publisher``
                         (with ``ads_order_views``, ``ads_order_forecasts``) and ``ads_snap``
``ads_…_report``         their pages, tables and pictures
``measuring``            time and peak memory of a function, in a fresh process
``environment``          which machine and versions a result comes from
``result_tables``        one table for terminal and page
``program_runs``         the program in a process of its own, its time and peak memory
``kept_trials``          finished trials, from which a run goes on
``program``              the commands; ``consensus_commands`` has those of consensus functions,
                         ``scale_commands`` those of size and speed
``command_steps``        what commands share: options, folders, files, what is shown
=======================  =======================================================================

A further benchmark is one module that computes, one that reports, and one command.
"""
