(* lf.lem3.2b: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.2, second part.
   Let s^{B,b}(theta') and s^{B,a}(theta') be the biased signal of the trainable parameters before and after freezing, then |s^{B,a}(theta')| >= |s^{B,b}(theta')|. *)
From kernel Require Import definitions lemmas.

From kernel Require Import lf.lem3_2a.
Definition signal_before d C (gs : list sample) : vec := average d (map (before C) gs).
Definition signal_after d C (gs : list sample) : vec := average d (map (after C) gs).
Definition batch d (gs : list sample) : Prop := gs <> [] /\ Forall (fun g => length (fst g) = d) gs.
Definition printed : Prop := forall d C gs, 0 < C -> batch d gs ->
  norm (signal_before d C gs) <= norm (signal_after d C gs).
(* no two trainable parts at an obtuse angle *)
Definition correction : Prop := forall d C gs, 0 < C -> batch d gs ->
  (forall g g', In g gs -> In g' gs -> 0 <= dot (fst g) (fst g')) ->
  norm (signal_before d C gs) <= norm (signal_after d C gs).

(* C = 1, two samples (1; 0) and (-3; 4): the signal falls from 1/5 to 0 *)
Definition pair : list sample := [([1], [0]); ([-3], [4])].
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat 1 pair ltac:(lra)).
  assert (n1 : norm [1; 0] = 1) by norm_of. assert (n5 : norm [-3; 4] = 5) by norm_of. assert (n1' : norm [1] = 1) by norm_of. assert (n3 : norm [-3] = 3) by norm_of.
  assert (b : norm (signal_before 1 1 pair) = 1 / 5).
  { unfold signal_before, average, pair, before, part, full. cbn [map fst snd app]. rewrite n1, n5, Rmin_left, Rmin_right by lra.
    cbv [sum map fold_right add zip scale zero repeat length INR]. norm_of. }
  assert (a : norm (signal_after 1 1 pair) = 0).
  { unfold signal_after, average, pair, after, part. cbn [map fst snd]. rewrite n1', n3, Rmin_left, Rmin_right by lra.
    cbv [sum map fold_right add zip scale zero repeat length INR]. norm_of. }
  rewrite a, b in claim. assert (batch 1 pair) by (split; [discriminate | repeat constructor]). specialize (claim H). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d C gs C0 [ne F] acute. unfold signal_before, signal_after, average. rewrite !norm_scale, !map_length.
  apply Rmult_le_compat_l; [apply Rabs_pos|].
  assert (Fb : Forall (fun v => length v = d) (map (before C) gs)) by (apply Forall_map; eapply Forall_impl; [|exact F]; simpl; intros; unfold before, part; rewrite length_scale; assumption).
  assert (Fa : Forall (fun v => length v = d) (map (after C) gs)) by (apply Forall_map; eapply Forall_impl; [|exact F]; simpl; intros; unfold after, part; rewrite length_scale; assumption).
  set (sb := sum d (map (before C) gs)). set (sa := sum d (map (after C) gs)).
  assert (pos : forall g, In g gs -> 0 <= dot (fst g) sb).
  { intros g i. rewrite dot_comm. unfold sb. rewrite dot_sum, map_map by exact Fb.
    replace 0 with (total (map (fun _ : sample => 0) gs)) by (rewrite total_constant; ring).
    apply total_map_le, Forall_forall. intros g' i'. unfold before, part. rewrite dot_scale. pose proof (norm_nonneg (fst g')) as n0.
    destruct (Req_dec (norm (fst g')) 0) as [z|nz].
    - assert (dot (fst g') (fst g) = 0); [|nra]. pose proof (cauchy_schwarz_square (fst g') (fst g)) as c. rewrite <- (norm_norm (fst g')), z in c. nra.
    - destruct (factor C g' C0 ltac:(lra)). apply Rmult_le_pos; [lra | apply acute; assumption]. }
  assert (le : square sb <= dot sa sb).
  { unfold square. unfold sb at 1, sa. rewrite !dot_sum, !map_map by assumption. apply total_map_le, Forall_forall. intros g i.
    unfold before, after, part. rewrite !dot_scale. specialize (pos g i). pose proof (norm_nonneg (fst g)) as n0.
    destruct (Req_dec (norm (fst g)) 0) as [z|nz].
    - assert (dot (fst g) sb = 0); [|nra]. pose proof (cauchy_schwarz_square (fst g) sb) as c. rewrite <- (norm_norm (fst g)), z in c. nra.
    - destruct (factor C g C0 ltac:(lra)). apply Rmult_le_compat_r; assumption. }
  pose proof (cauchy_schwarz sa sb) as c. rewrite <- norm_norm in le. pose proof (norm_nonneg sb). pose proof (norm_nonneg sa).
  destruct (Req_dec (norm sb) 0) as [z|nz]; [rewrite z; assumption|]. apply (Rmult_le_reg_r (norm sb)); lra.
Qed.
